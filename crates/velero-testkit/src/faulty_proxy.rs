//! A proxy between a client and a real S3 store, registry or API server that misbehaves on command: it refuses, breaks off
//! or damages requests, or loses their answers.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// The first byte of a client that speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// A request as seen by the proxy.
pub struct Request {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The number of bytes in the body.
    pub length: usize,
    head: Vec<u8>,
}

impl Request {
    /// Whether what follows is no HTTP any more, as when a command runs in a container.
    fn is_upgrade(&self) -> bool {
        String::from_utf8_lossy(&self.head).to_ascii_lowercase().contains("\r\nupgrade:")
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        let head = String::from_utf8_lossy(&self.head);
        head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    /// Whether it carries an object or a part of one.
    pub fn is_upload(&self) -> bool {
        self.method == "PUT" && self.length > 0
    }
}

/// How often it is asked whether a connection is to be cut.
const A_LOOK_EVERY: Duration = Duration::from_millis(250);

/// What the proxy does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pass it on.
    Forward,
    /// Pass it on after this long.
    Delay(Duration),
    /// Ask the rule again after this long.
    AskAgain(Duration),
    /// Answer that the service is unavailable.
    Unavailable,
    /// Answer with these bytes, head and body, and pass nothing on.
    Answer(Arc<Vec<u8>>),
    /// Close the connection after this many bytes of the body.
    Cut(usize),
    /// Pass it on, and close the connection after this many bytes of the answer; after none, the answer is lost.
    CutAnswer(usize),
    /// Pass it on, and say nothing more after this many bytes of the answer.
    HoldAnswer(usize),
    /// Change the byte at this place of the body.
    Flip(usize),
    /// Pass it on, and put this time into the header `Date` of the answer.
    Redate(&'static str),
    /// Pass it on, and change the byte at this place of the answer, head and body.
    FlipAnswer(usize),
}

/// This answer, head and body.
pub fn reply(answer: &str) -> Action {
    Action::Answer(Arc::new(answer.as_bytes().to_vec()))
}

/// An answer with that status, of that type.
pub fn answer(status: &str, content_type: &str, body: &str) -> Action {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
    Action::Answer(Arc::new([head.as_bytes(), body.as_bytes()].concat()))
}

/// Decides what happens to requests.
pub trait Rule: Send + Sync {
    /// What to do with a request.
    fn action(&self, request: &Request) -> Action;

    /// Called when an answer has come that is cut, before the client can know.
    fn lost(&self) {}

    /// Whether the answer to a request is to be shown to `answered`.
    fn wants_answer(&self, _: &Request) -> bool {
        false
    }

    /// Called with the whole answer to the request of a path.
    fn answered(&self, _: &str, _: Vec<u8>) {}

    /// Whether connections that were opened before that moment are cut now.
    fn cuts(&self, _opened: Instant) -> bool {
        false
    }
}

impl<F: Fn(&Request) -> Action + Send + Sync> Rule for F {
    fn action(&self, request: &Request) -> Action {
        self(request)
    }
}

/// Starts a proxy in front of `upstream` (a URL, or `host:port`) on loopback and gives its own URL. It lives as long as
/// the runtime it is started in.
pub async fn start(upstream: &str, rule: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Result<String> {
    start_with(upstream, rule).await
}

/// Like [`start`], with a rule that is told more.
pub async fn start_with(upstream: &str, rule: impl Rule + 'static) -> Result<String> {
    start_at(Ipv4Addr::LOCALHOST, upstream, rule).await
}

/// Like [`start_with`], at another address than loopback: pods reach the proxy at the address of their node.
pub async fn start_at(address: Ipv4Addr, upstream: &str, rule: impl Rule + 'static) -> Result<String> {
    let listener = TcpListener::bind((address, 0)).await.context("no port for the proxy")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (upstream, rule): (_, Arc<dyn Rule>) = (upstream.trim_start_matches("http://").to_owned(), Arc::new(rule));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (upstream, rule) = (upstream.clone(), rule.clone());
            tokio::spawn(async move {
                let _ = serve(client, &upstream, rule.as_ref()).await;
            });
        }
    });
    Ok(url)
}

/// A rule that does this to the first `count` uploads.
pub fn first_uploads(count: usize, action: Action) -> impl Fn(&Request) -> Action {
    let seen = std::sync::atomic::AtomicUsize::new(0);
    move |request| {
        let chosen = request.is_upload() && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < count;
        if chosen { action.clone() } else { Action::Forward }
    }
}

/// A rule that does this to every request, from the first upload on and for that long.
pub fn outage(length: Duration, action: Action) -> impl Fn(&Request) -> Action {
    let begin = std::sync::OnceLock::new();
    move |request| {
        if request.is_upload() {
            begin.get_or_init(Instant::now);
        }
        let lasts = begin.get().is_some_and(|begin| begin.elapsed() < length);
        if lasts { action.clone() } else { Action::Forward }
    }
}

async fn serve(client: TcpStream, upstream: &str, rule: &dyn Rule) -> io::Result<()> {
    let (from_client, to_client) = client.into_split();
    let (from_store, mut to_store) = TcpStream::connect(upstream).await?.into_split();
    let (mut from_client, to_client) = (BufReader::new(from_client), Mutex::new(to_client));
    let (answer, opened) = (Answer::default(), Instant::now());
    let requests = async {
        while let Some(request) = read_head(&mut from_client).await? {
            // The next request comes when the answer to the last is whole.
            answer.show(rule);
            answer.pass_whole();
            if rule.wants_answer(&request) {
                *answer.shown() = Some((request.path.clone(), Vec::new()));
            }
            let action = decided(rule, &request).await;
            match action {
                Action::CutAnswer(length) | Action::HoldAnswer(length) => {
                    answer.hold.store(matches!(action, Action::HoldAnswer(_)), Ordering::SeqCst);
                    answer.allowed.store(length, Ordering::SeqCst);
                }
                Action::FlipAnswer(place) => answer.flip.store(place, Ordering::SeqCst),
                _ => {}
            }
            if let Action::Redate(date) = action {
                *answer.date.lock().await = date;
            }
            // One that is refused here goes on as HTTP.
            let is_upgrade = request.is_upgrade() && !matches!(action, Action::Answer(_) | Action::Unavailable);
            if !pass(request, action, &mut from_client, &mut to_store, &to_client).await? {
                break;
            }
            if is_upgrade {
                tokio::io::copy_buf(&mut from_client, &mut to_store).await?;
            }
        }
        Ok(())
    };
    // Whichever side ends first ends the other: a client must not wait for a store that has hung up.
    tokio::select! {
        ended = requests => ended,
        ended = relay(from_store, &to_client, &answer, rule) => ended,
        () = until_cut(rule, opened) => Ok(()),
    }
}

async fn until_cut(rule: &dyn Rule, opened: Instant) {
    while !rule.cuts(opened) {
        tokio::time::sleep(A_LOOK_EVERY).await;
    }
}

/// What a rule has done to a request, once it knows.
async fn decided(rule: &dyn Rule, request: &Request) -> Action {
    loop {
        match rule.action(request) {
            Action::AskAgain(pause) => tokio::time::sleep(pause).await,
            action => return action,
        }
    }
}

/// How much of the answer passes, and whether the client is kept waiting for the rest.
struct Answer {
    allowed: AtomicUsize,
    hold: AtomicBool,
    /// The time to put into it; nothing leaves the store's own.
    date: Mutex<&'static str>,
    /// How many bytes come before the one that is changed.
    flip: AtomicUsize,
    /// The path of a request whose answer is to be shown, and as much of it as has come.
    shown: std::sync::Mutex<Option<(String, Vec<u8>)>>,
}

impl Default for Answer {
    fn default() -> Self {
        let [allowed, flip] = [usize::MAX; 2].map(AtomicUsize::new);
        let (hold, date) = (AtomicBool::new(false), Mutex::new(""));
        Self { allowed, hold, date, flip, shown: std::sync::Mutex::default() }
    }
}

/// Puts another time into the header of an answer. All times have the same length there.
fn redate(answer: &mut [u8], date: &str) {
    const HEADER: &[u8] = b"\r\nDate: ";
    if let Some(at) = answer.windows(HEADER.len()).position(|window| window == HEADER)
        && let Some(place) = answer.get_mut(at + HEADER.len()..at + HEADER.len() + date.len())
    {
        place.copy_from_slice(date.as_bytes());
    }
}

impl Answer {
    fn shown(&self) -> std::sync::MutexGuard<'_, Option<(String, Vec<u8>)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the answer that has come, if it is wanted.
    fn show(&self, rule: &dyn Rule) {
        if let Some((path, answer)) = self.shown().take() {
            rule.answered(&path, answer);
        }
    }

    /// Lets the next answer pass as it is: a place that the last one did not reach is none of this one.
    fn pass_whole(&self) {
        self.allowed.store(usize::MAX, Ordering::SeqCst);
        self.hold.store(false, Ordering::SeqCst);
        self.flip.store(usize::MAX, Ordering::SeqCst);
    }

    /// Takes note of bytes that pass, and changes one if that is its turn.
    fn pass(&self, bytes: &mut [u8]) {
        if let Some((_, answer)) = self.shown().as_mut() {
            answer.extend_from_slice(bytes);
        }
        let place = self.flip.load(Ordering::SeqCst);
        if place == usize::MAX {
            return;
        }
        match bytes.get_mut(place) {
            Some(byte) => {
                *byte ^= 1;
                self.flip.store(usize::MAX, Ordering::SeqCst);
            }
            None => self.flip.store(place - bytes.len(), Ordering::SeqCst),
        }
    }
}

async fn relay(
    mut store: OwnedReadHalf,
    client: &Mutex<OwnedWriteHalf>,
    answer: &Answer,
    rule: &dyn Rule,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match store.read(&mut buffer).await? {
            0 => return Ok(()),
            count => {
                redate(&mut buffer[..count], *answer.date.lock().await);
                answer.pass(&mut buffer[..count]);
                let allowed = answer.allowed.load(Ordering::SeqCst);
                let passed = allowed.min(count);
                client.lock().await.write_all(&buffer[..passed]).await?;
                if allowed != usize::MAX {
                    answer.allowed.store(allowed - passed, Ordering::SeqCst);
                }
                if passed < count && answer.hold.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                if passed < count {
                    rule.lost();
                    return Ok(());
                }
            }
        }
    }
}

async fn read_head(client: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Request>> {
    // Real servers hang up as well when someone tries TLS where there is none.
    if client.fill_buf().await?.first() == Some(&TLS_HANDSHAKE) {
        return Ok(None);
    }
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_until(b'\n', &mut head).await? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|value| value.trim().parse().ok()).unwrap_or(0);
    let line = String::from_utf8_lossy(&head);
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok(Some(Request { method, path, length, head }))
}

/// An answer as it is sent to a request: that to `HEAD` has no body, which would be taken for the beginning of the next answer.
fn as_asked<'a>(request: &Request, answer: &'a [u8]) -> &'a [u8] {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD);
    match end {
        Some(end) if request.method == "HEAD" => &answer[..end + END_OF_HEAD.len()],
        _ => answer,
    }
}

/// Treats one request; `false` ends the connection.
async fn pass(
    request: Request,
    action: Action,
    client: &mut BufReader<OwnedReadHalf>,
    store: &mut OwnedWriteHalf,
    answers: &Mutex<OwnedWriteHalf>,
) -> io::Result<bool> {
    let mut body = vec![0; request.length];
    match action {
        Action::Cut(length) => {
            store.write_all(&request.head).await?;
            let length = length.min(request.length);
            client.read_exact(&mut body[..length]).await?;
            store.write_all(&body[..length]).await?;
            return Ok(false);
        }
        Action::Unavailable => {
            client.read_exact(&mut body).await?;
            let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
            answers.lock().await.write_all(answer).await?;
            return Ok(true);
        }
        Action::Answer(answer) => {
            client.read_exact(&mut body).await?;
            answers.lock().await.write_all(as_asked(&request, &answer)).await?;
            return Ok(true);
        }
        Action::Flip(place) => {
            client.read_exact(&mut body).await?;
            if let Some(last) = request.length.checked_sub(1) {
                body[place.min(last)] ^= 1;
            }
        }
        Action::Forward
        | Action::AskAgain(_)
        | Action::CutAnswer(_)
        | Action::HoldAnswer(_)
        | Action::FlipAnswer(_)
        | Action::Redate(_) => {
            client.read_exact(&mut body).await?;
        }
        Action::Delay(length) => {
            client.read_exact(&mut body).await?;
            tokio::time::sleep(length).await;
        }
    }
    store.write_all(&request.head).await?;
    store.write_all(&body).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// A store that answers every request with the same few bytes.
    async fn small_store() -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (from_client, mut to_client) = stream.into_split();
                    let mut from_client = BufReader::new(from_client);
                    while let Ok(Some(_)) = read_head(&mut from_client).await {
                        to_client.write_all(SMALL).await.unwrap();
                    }
                });
            }
        });
        address.to_string()
    }

    #[tokio::test]
    async fn what_was_to_be_cut_behind_the_end_of_an_answer_cuts_no_later_one() {
        let cuts_the_first = |request: &Request| match request.path.as_str() {
            "/first" => Action::CutAnswer(SMALL.len() + 3),
            _ => Action::Forward,
        };
        let url = start(&small_store().await, cuts_the_first).await.unwrap();
        let mut client = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        for path in ["/first", "/second", "/third"] {
            client.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = vec![0; SMALL.len()];
            client.read_exact(&mut answer).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(answer, SMALL, "{path}");
        }
    }
    #[tokio::test]
    async fn an_answer_to_a_question_for_the_head_has_no_body() {
        let refuses = |_: &Request| answer("500 Internal Server Error", "text/plain", "no");
        let url = start(&small_store().await, refuses).await.unwrap();
        let mut client = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        client.write_all(b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").await.unwrap();
        let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n";
        let expected = format!("{head}{head}no");
        let mut answers = vec![0; expected.len()];
        client.read_exact(&mut answers).await.unwrap();
        assert_eq!(String::from_utf8(answers).unwrap(), expected);
    }
}
