//! What a plugin prints: stdout belongs to the protocol, so it is passed to the host over the connection.

use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// How much the plugin may print before the host takes it; more is lost rather than waited for.
const WAITING_PIECES: usize = 64;

/// What was printed and not yet taken. There is one taker at most.
pub(crate) struct Printed(Mutex<Option<mpsc::Receiver<Bytes>>>);

impl Printed {
    /// Leads stdout into a pipe from now on.
    pub(crate) fn redirect() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::stdio::dup2_stdout(&writer)?;
        let mut reader = pipe::Receiver::from_owned_fd(reader)?;
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        tokio::spawn(async move {
            let mut piece = vec![0; 1 << 10];
            while let Ok(length @ 1..) = reader.read(&mut piece).await {
                let _ = sender.try_send(Bytes::copy_from_slice(&piece[..length]));
            }
        });
        Ok(Self(Mutex::new(Some(receiver))))
    }

    /// Takes the pieces; `None` when somebody has.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.lock().ok()?.take()
    }
}
