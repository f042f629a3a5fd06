//! Somebody who looks at the page, without a browser: signs in, asks for pages, and follows changes as the script does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an answer, or a change, may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Who has signed in.
#[derive(Clone)]
pub(super) struct Visitor {
    address: String,
    cookies: String,
}

/// What was answered.
pub(super) struct Answer {
    pub(super) body: String,
    pub(super) took: Duration,
}

impl Visitor {
    /// Signs in with a token of Kubernetes.
    pub(super) async fn sign_in(address: &str, token: &str) -> Result<Self> {
        let body = format!("token={token}");
        let request = format!(
            "POST /sign-in HTTP/1.0\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = ask(address, &request).await?;
        let given = answer.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
        let kept: Vec<&str> =
            given.filter_map(|cookie| cookie.split(';').next()).filter(|it| !it.ends_with('=')).collect();
        ensure!(!kept.is_empty(), "the token is not taken: {answer}");
        Ok(Self { address: address.to_owned(), cookies: kept.join("; ") })
    }

    /// Asks for a page; anything but success is an error.
    pub(super) async fn get(&self, path: &str) -> Result<Answer> {
        let begin = Instant::now();
        let answer = ask(&self.address, &self.request(path)).await?;
        let took = begin.elapsed();
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head and a body")?;
        ensure!(head.starts_with("HTTP/1.0 200"), "{path} is answered with {head}\n{body}");
        Ok(Answer { body: body.to_owned(), took })
    }

    /// Opens a stream of changes.
    pub(super) async fn follow(&self, kind: &str) -> Result<Changes> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(self.request(&format!("/live?kind={kind}")).as_bytes()).await?;
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        timeout(DEADLINE, lines.read_line(&mut first)).await??;
        ensure!(first.starts_with("HTTP/1.0 200"), "changes are not told: {first}");
        Ok(Changes { lines })
    }

    fn request(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.0\r\nHost: {}\r\nCookie: {}\r\n\r\n", self.address, self.cookies)
    }
}

/// A stream of changes.
pub(super) struct Changes {
    lines: BufReader<TcpStream>,
}

impl Changes {
    /// Waits until something has changed.
    pub(super) async fn next(&mut self) -> Result<()> {
        let changed = async {
            let mut line = String::new();
            while line.trim_end() != "event: change" {
                line.clear();
                ensure!(self.lines.read_line(&mut line).await? > 0, "the stream of changes has ended");
            }
            Ok(())
        };
        timeout(DEADLINE, changed).await.context("no change was told")?
    }
}

async fn ask(address: &str, request: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8(answer)?)
    };
    timeout(DEADLINE, asking).await.with_context(|| format!("{address} does not answer"))?
}
