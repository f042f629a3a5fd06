//! Bridges between blocking code, which writes and reads archives, and asynchronous streams.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::ByteStream;

const CHUNK: usize = 256 * 1024;

enum Message {
    Data(Bytes),
    End,
}

/// The writing end of a pipe; used from a blocking thread.
pub struct PipeWriter {
    sender: mpsc::Sender<Message>,
    buffer: BytesMut,
}

/// A pipe from a blocking writer to a stream that holds at most `chunks` pieces of 256 KiB.
///
/// The stream ends in an error unless the writer was finished, so that a writer that failed halfway can never pass
/// for a complete one. The writer fails once the stream is dropped.
pub fn pipe(chunks: usize) -> (PipeWriter, ByteStream) {
    let (sender, receiver) = mpsc::channel(chunks.max(1));
    let stream = stream::unfold(Some(receiver), |state| async move {
        let mut receiver = state?;
        match receiver.recv().await {
            Some(Message::Data(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Message::End) => None,
            None => Some((Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the writer ended before its end")), None)),
        }
    });
    (PipeWriter { sender, buffer: BytesMut::with_capacity(CHUNK) }, stream.boxed())
}

impl PipeWriter {
    fn send(&mut self, message: Message) -> io::Result<()> {
        let closed = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload ended before the content did");
        self.sender.blocking_send(message).map_err(closed)
    }

    /// Says that the content is complete.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(Message::End)
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(CHUNK));
        self.send(Message::Data(full.freeze()))
    }
}

/// A blocking reader over a stream, to be read from a blocking thread; must be made inside a runtime.
pub fn blocking_reader(stream: ByteStream) -> impl Read + Send + 'static {
    SyncIoBridge::new(StreamReader::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn what_is_written_arrives_and_ends() {
        let (mut writer, stream) = pipe(2);
        let content: Vec<u8> = (0..2_000_000u32).map(|number| number as u8).collect();
        let copy = content.clone();
        let task = tokio::task::spawn_blocking(move || {
            writer.write_all(&copy)?;
            writer.finish()
        });
        let found: Vec<Bytes> = stream.try_collect().await.unwrap();
        task.await.unwrap().unwrap();
        assert_eq!(found.concat(), content);
    }

    #[tokio::test]
    async fn a_writer_that_is_dropped_unfinished_ends_the_stream_in_an_error() {
        let (mut writer, stream) = pipe(2);
        let task = tokio::task::spawn_blocking(move || writer.write_all(b"half"));
        let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_writer_learns_that_nobody_reads() {
        let (mut writer, stream) = pipe(1);
        drop(stream);
        let error = tokio::task::spawn_blocking(move || writer.write_all(&vec![0; CHUNK])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_stream_can_be_read_by_blocking_code() {
        let stream = stream::iter([Ok(Bytes::from_static(b"ab")), Ok(Bytes::from_static(b"c"))]).boxed();
        let mut reader = blocking_reader(stream);
        let text = tokio::task::spawn_blocking(move || io::read_to_string(&mut reader)).await.unwrap().unwrap();
        assert_eq!(text, "abc");
    }
}
