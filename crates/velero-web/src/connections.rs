//! The connections to the page: so many at once, none on which nothing moves or a request comes to no end, and encrypted where there
//! is a certificate.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::server::REQUEST_TIME;
use crate::tls::Tls;

/// How many connections there may be. Others wait until one ends.
const MOST: usize = 512;
/// How long nothing may move on a connection. Live pages hear something every fifteen seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// How long it may take from the first byte of a request to the first of its answer: what the answer may take, and a few seconds
/// for the request. Who sends it byte by byte gets no more.
const LONGEST_QUESTION: Duration = Duration::from_secs(REQUEST_TIME.as_secs() + 15);
/// How soon it is tried again when the system gives no connection.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// How long both sides may take to agree on a key.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts a bounded number of connections.
pub(crate) struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
    tls: Option<Tls>,
    /// Those that agree on a key; who is slow keeps nobody waiting.
    beginning: JoinSet<Option<(Connection, SocketAddr)>>,
}

impl Connections {
    pub(crate) fn new(listener: TcpListener, tls: Option<Tls>) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(MOST)), tls, beginning: JoinSet::new() }
    }

    /// The next connection as the system gives it.
    async fn next(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
        loop {
            let place = Arc::clone(places).acquire_owned().await;
            match (place, listener.accept().await) {
                (Ok(place), Ok((stream, address))) => {
                    let _ = stream.set_nodelay(true);
                    return (stream, address, place);
                }
                (_, Err(error)) => {
                    tracing::debug!(%error, "A connection to the page could not be accepted");
                    sleep(AFTER_FAILURE).await;
                }
                (Err(_), Ok(_)) => {}
            }
        }
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                Some(begun) = self.beginning.join_next(), if !self.beginning.is_empty() => {
                    if let Ok(Some(connection)) = begun {
                        return connection;
                    }
                }
                (stream, address, place) = Self::next(&self.listener, &self.places) => match &mut self.tls {
                    None => return (Connection::new(Stream::Plain(stream), place), address),
                    Some(tls) => {
                        let acceptor = tls.acceptor(std::time::Instant::now());
                        self.beginning.spawn(begin(acceptor, stream, address, place));
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn begin(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    place: OwnedSemaphorePermit,
) -> Option<(Connection, SocketAddr)> {
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some((Connection::new(Stream::Encrypted(Box::new(stream)), place), address)),
        Ok(Err(error)) => {
            tracing::debug!(%error, %address, "A connection to the page could not be encrypted");
            None
        }
        Err(_) => None,
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Where requests come from.
    pub(crate) address: IpAddr,
    /// Whether it has shown a certificate of the authority of proxies.
    pub(crate) is_proxy: bool,
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Self { address: stream.remote_addr().ip(), is_proxy: stream.io().stream.is_proxy() }
    }
}

/// A connection, encrypted or not.
pub(crate) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// A certificate that was shown has been verified, else there would be no connection.
    fn is_proxy(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(stream) => stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty()),
        }
    }
}

/// Asks whichever stream it is.
macro_rules! of_stream {
    ($stream:expr, $call:ident ( $($argument:expr),* )) => {
        match &mut *$stream {
            Stream::Plain(stream) => Pin::new(stream).$call($($argument),*),
            Stream::Encrypted(stream) => Pin::new(&mut **stream).$call($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_stream!(self, poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_stream!(self, poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_shutdown(context))
    }
}

/// A connection that ends when nothing moves on it, or too slowly.
pub(crate) struct Connection<S = Stream> {
    stream: S,
    /// When it ends, unless something moves.
    end: Pin<Box<Sleep>>,
    /// Whether a request has begun that has no answer yet.
    is_asked: bool,
    _place: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self { stream, end: Box::pin(sleep(LONGEST_SILENCE)), is_asked: false, _place: place }
    }

    /// Takes note of what was read: the first bytes of a request give it its time, those behind them no more.
    fn note_read(&mut self) {
        if !self.is_asked {
            self.is_asked = true;
            self.end.as_mut().reset(Instant::now() + LONGEST_QUESTION);
        }
    }

    /// Takes note of what was written: a part of an answer.
    fn note_written(&mut self) {
        self.is_asked = false;
        self.end.as_mut().reset(Instant::now() + LONGEST_SILENCE);
    }

    /// Waits on; an error when that has been for too long.
    fn waited<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_pending() {
            return self.waited(context);
        }
        self.note_read();
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_pending() {
            return self.waited(context);
        }
        self.note_written();
        polled
    }

    // What is encrypted is written when it is flushed: who does not read keeps this waiting, and the end too.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.waited(context),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.waited(context),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn listening() -> (Connections, SocketAddr) {
        let connections = Connections::new(TcpListener::bind("127.0.0.1:0").await.unwrap(), None);
        let address = connections.local_addr().unwrap();
        (connections, address)
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_and_who_reads_nothing_is_let_go() {
        let (mut connections, address) = listening().await;
        let _client = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = connections.accept().await;
        let begin = Instant::now();
        let silent = connection.read_u8().await.unwrap_err();
        assert_eq!((silent.kind(), begin.elapsed() >= LONGEST_SILENCE), (io::ErrorKind::TimedOut, true));

        let _slow = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = connections.accept().await;
        let page = vec![b'x'; 64 << 10];
        let refused = loop {
            if let Err(error) = connection.write_all(&page).await {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }

    /// A stream that takes what is written and sends nothing of it: one that is encrypted, to somebody who does not read.
    struct Stuck;

    impl AsyncWrite for Stuck {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_of_what_is_encrypted_is_let_go() {
        let places = Arc::new(Semaphore::new(2));
        let place = || Arc::clone(&places).try_acquire_owned().unwrap();
        let begin = Instant::now();
        let mut answered = Connection::new(Stuck, place());
        answered.write_all(b"page").await.unwrap();
        assert_eq!(answered.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut ended = Connection::new(Stuck, place());
        assert_eq!(ended.shutdown().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= LONGEST_SILENCE * 2);
    }

    /// Serves a page of one word, which is there after a while.
    async fn serving(after: Duration) -> SocketAddr {
        let (connections, address) = listening().await;
        let page = axum::Router::new().fallback(move || async move {
            sleep(after).await;
            "page"
        });
        tokio::spawn(axum::serve(connections, page).into_future());
        address
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_a_request_byte_by_byte_is_let_go() {
        const BETWEEN: Duration = Duration::from_secs(20);
        let address = serving(Duration::ZERO).await;
        for begin in ["", "GET / HTTP/1.1\r\nHost: page\r\nSlow: "] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(begin.as_bytes()).await.unwrap();
            let (mut is_let_go, mut byte) = (false, [0_u8]);
            for _ in 0..100 {
                match timeout(BETWEEN, client.read(&mut byte)).await {
                    Ok(Ok(0) | Err(_)) => {
                        is_let_go = true;
                        break;
                    }
                    Ok(Ok(_)) => {}
                    // It may be gone just now, which the next look shows.
                    Err(_) => drop(client.write_all(b"x").await),
                }
            }
            assert!(is_let_go, "{begin:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_after_a_long_silence_gets_an_answer_that_takes_long() {
        let address = serving(REQUEST_TIME).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        sleep(LONGEST_SILENCE - Duration::from_secs(5)).await;
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("page"), "{answer}");
    }

    #[tokio::test]
    async fn one_more_than_there_may_be_waits_until_another_ends() {
        let (mut connections, address) = listening().await;
        connections.places = Arc::new(Semaphore::new(1));
        let mut clients = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let (first, _) = connections.accept().await;
        let second = tokio::spawn(async move { connections.accept().await });
        tokio::task::yield_now().await;
        assert!(!second.is_finished(), "there is one place");
        drop(first);
        let (mut second, _) = second.await.unwrap();
        clients[1].write_u8(7).await.unwrap();
        assert_eq!(second.read_u8().await.unwrap(), 7);
    }
}
