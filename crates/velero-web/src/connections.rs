//! The connections to the page: so many at once, and none on which nothing moves.

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
use tokio::time::{Instant, Sleep, sleep};

/// How many connections there may be. Others wait until one ends.
const MOST: usize = 512;
/// How long nothing may move on a connection. Live pages hear something every fifteen seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// How soon it is tried again when the system gives no connection.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Accepts a bounded number of connections.
pub(crate) struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Connections {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            match (place, self.listener.accept().await) {
                (Ok(place), Ok((stream, address))) => {
                    let _ = stream.set_nodelay(true);
                    return (Connection::new(stream, place), address);
                }
                (_, Err(error)) => {
                    tracing::debug!(%error, "A connection to the page could not be accepted");
                    sleep(AFTER_FAILURE).await;
                }
                (Err(_), Ok(_)) => {}
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Self(stream.remote_addr().ip())
    }
}

/// A connection that ends when nothing moves on it.
pub(crate) struct Connection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> Self {
        Self { stream, silence: Box::pin(sleep(LONGEST_SILENCE)), _place: place }
    }

    /// Takes note of whether something moved; an error when nothing has for too long.
    fn moved<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.silence.as_mut().reset(Instant::now() + LONGEST_SILENCE);
            return polled;
        }
        match self.silence.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved(polled, context)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn listening() -> (Connections, SocketAddr) {
        let connections = Connections::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
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
