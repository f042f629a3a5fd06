//! A proxy in front of the stand-in for EC2, whose snapshots are complete at once: here they take as long as a test
//! wants, fail, and requests are refused or their answers lost on command. Everything else is the stand-in's.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::parts::texts;

const THROTTLED: &str = "<Response><Errors><Error><Code>RequestLimitExceeded</Code>\
    <Message>Request limit exceeded.</Message></Error></Errors></Response>";
const EXPIRED: &str = "<Response><Errors><Error><Code>ExpiredToken</Code>\
    <Message>The security token included in the request is expired</Message></Error></Errors></Response>";

/// What the proxy does next. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ec2Course(Arc<Mutex<Course>>);

#[derive(Debug, Default)]
struct Course {
    /// What is said of snapshots, by the ID of their volume; of others `usual`.
    snapshots: BTreeMap<String, SnapshotState>,
    usual: SnapshotState,
    throttled: usize,
    lost: BTreeMap<String, usize>,
    expired: bool,
    seen: Vec<String>,
}

/// How a snapshot stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SnapshotState {
    /// Complete, as the stand-in says.
    #[default]
    Complete,
    /// That many percent are done.
    Pending(u8),
    /// It failed, for that reason.
    Failed(String),
}

impl Ec2Course {
    /// Starts a proxy in front of `upstream` on loopback and gives its URL. It lives as long as the runtime.
    pub async fn start(&self, upstream: &str) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the proxy")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (upstream, course) = (upstream.trim_start_matches("http://").to_owned(), self.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, course) = (upstream.clone(), course.clone());
                tokio::spawn(async move {
                    let _ = serve(client, &upstream, &course).await;
                });
            }
        });
        Ok(url)
    }

    /// What is said of all snapshots that are not named.
    pub fn set_all(&self, state: SnapshotState) {
        self.change(|course| course.usual = state);
    }

    /// What is said of the snapshots of a volume.
    pub fn set(&self, volume_id: &str, state: SnapshotState) {
        self.change(|course| course.snapshots.insert(volume_id.to_owned(), state));
    }

    /// Refuses the next requests because there are too many.
    pub fn throttle(&self, requests: usize) {
        self.change(|course| course.throttled = requests);
    }

    /// Does what the next requests of an action ask for, and loses the answers.
    pub fn lose_answers(&self, action: &str, requests: usize) {
        self.change(|course| course.lost.insert(action.to_owned(), requests));
    }

    /// Refuses all credentials from now on, or none.
    pub fn expire(&self, expired: bool) {
        self.change(|course| course.expired = expired);
    }

    /// How many requests of an action came.
    pub fn count(&self, action: &str) -> usize {
        self.change(|course| course.seen.iter().filter(|seen| *seen == action).count())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Course) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answer to a request that the stand-in does not get to see.
    fn refusal(&self, action: &str) -> Option<(&'static str, &'static str)> {
        self.change(|course| {
            course.seen.push(action.to_owned());
            if course.expired {
                return Some(("400 Bad Request", EXPIRED));
            }
            let is_throttled = course.throttled > 0;
            course.throttled = course.throttled.saturating_sub(1);
            is_throttled.then_some(("503 Service Unavailable", THROTTLED))
        })
    }

    fn loses(&self, action: &str) -> bool {
        self.change(|course| {
            let left = course.lost.get_mut(action).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_some()
        })
    }

    /// The stand-in's answer, with snapshots that stand as the test wants.
    fn alter(&self, body: &str) -> String {
        let mut pieces = body.split("<snapshotId>");
        let mut altered = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let volume = texts(piece, "volumeId").into_iter().next().unwrap_or_default();
            let state = self.change(|course| course.snapshots.get(&volume).unwrap_or(&course.usual).clone());
            let (status, progress) = match &state {
                SnapshotState::Complete => ("<status>completed</status>".to_owned(), 100),
                SnapshotState::Pending(percent) => ("<status>pending</status>".to_owned(), *percent),
                SnapshotState::Failed(reason) => {
                    (format!("<status>error</status><statusMessage>{reason}</statusMessage>"), 10)
                }
            };
            let piece = piece.replace("<status>completed</status>", &status);
            altered.push_str("<snapshotId>");
            altered.push_str(&piece.replace("<progress>100%</progress>", &format!("<progress>{progress}%</progress>")));
        }
        altered
    }
}

/// One request: the stand-in closes every connection after it.
async fn serve(mut client: TcpStream, upstream: &str, course: &Ec2Course) -> io::Result<()> {
    let Some((head, body)) = read_request(&mut client).await? else { return Ok(()) };
    let form = String::from_utf8_lossy(&body).into_owned();
    let action = form.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
    if let Some((status, body)) = course.refusal(action) {
        return answer(&mut client, status, body).await;
    }
    let mut store = TcpStream::connect(upstream).await?;
    store.write_all(&head).await?;
    store.write_all(&body).await?;
    let mut response = Vec::new();
    store.read_to_end(&mut response).await?;
    if course.loses(action) {
        return Ok(());
    }
    let response = String::from_utf8_lossy(&response);
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let status = head.lines().next().and_then(|line| line.split_once(' ')).map_or("502 Bad Gateway", |(_, rest)| rest);
    answer(&mut client, status, &course.alter(body)).await
}

async fn read_request(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.extend(byte);
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.and_then(|value| value.trim().parse().ok()).unwrap_or(0)];
    client.read_exact(&mut body).await?;
    Ok(Some((head, body)))
}

async fn answer(client: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_stand_as_the_test_wants() {
        let one = |volume: &str| {
            format!(
                "<item><snapshotId>s</snapshotId><volumeId>{volume}</volumeId><status>completed</status><progress>100%</progress></item>"
            )
        };
        let course = Ec2Course::default();
        course.set_all(SnapshotState::Pending(40));
        course.set("b", SnapshotState::Failed("why".to_owned()));
        course.set("c", SnapshotState::Complete);
        let altered = course.alter(&["a", "b", "c"].map(one).concat());
        assert_eq!(texts(&altered, "status"), ["pending", "error", "completed"]);
        assert_eq!(texts(&altered, "progress"), ["40%", "10%", "100%"]);
        assert_eq!(texts(&altered, "statusMessage"), ["why"]);
    }
}
