//! One blob on its way: skipped, mounted, or streamed from registry to registry.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Body, StatusCode};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

use crate::copy::{Options, Progress};
use crate::digest::Hasher;
use crate::manifest::Blob;
use crate::registry::Upload;
use crate::retry::Attempts;
use crate::{Image, Problem};

/// How many pieces wait between the two connections.
const PIECES_BETWEEN: usize = 4;
/// How long a registry may take to store a blob after its last byte.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Which side failed, and how.
pub(crate) enum Failure {
    Source(Problem),
    Destination(Problem),
}

impl Failure {
    fn problem(&self) -> &Problem {
        match self {
            Self::Source(problem) | Self::Destination(problem) => problem,
        }
    }
}

/// Whether the bytes of a blob had to move.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Yes,
    No,
}

/// One blob from one image to another.
pub(crate) struct Transfer {
    pub(crate) source: Image,
    pub(crate) destination: Image,
    /// Whether both are in one registry, where a blob needs no copy.
    pub(crate) mountable: bool,
    pub(crate) blob: Blob,
    pub(crate) options: Options,
}

impl Transfer {
    /// Brings the blob to the destination, trying again what can succeed.
    pub(crate) async fn run(self) -> Result<Moved, Failure> {
        let mut attempts = self.options.retry.attempts();
        let mut counted = Counted { sent: 0, progress: self.options.progress.clone() };
        loop {
            match self.attempt(&mut attempts, &mut counted).await {
                Err(failure) if attempts.another_after(failure.problem()).await => {}
                Ok(moved) => {
                    counted.up_to(self.blob.size);
                    return Ok(moved);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn attempt(&self, attempts: &mut Attempts, counted: &mut Counted) -> Result<Moved, Failure> {
        if self.destination.has_blob(&self.blob).await.map_err(Failure::Destination)? {
            return Ok(Moved::No);
        }
        let url = match self.begin().await.map_err(Failure::Destination)? {
            Upload::Mounted => return Ok(Moved::No),
            Upload::To(url) => url,
        };
        let (sender, receiver) = channel(PIECES_BETWEEN);
        let failed = async {
            match self.read(sender, attempts, counted).await {
                Err(failure) => failure,
                Ok(()) => self.never_stored().await,
            }
        };
        // Whoever fails first ends the other: an upload that ends too early is none.
        tokio::select! {
            sent = self.destination.upload(url, &self.blob, body(receiver)) => {
                sent.map(|()| Moved::Yes).map_err(Failure::Destination)
            }
            failure = failed => Err(failure),
        }
    }

    async fn never_stored(&self) -> Failure {
        tokio::time::sleep(COMMIT_TIMEOUT).await;
        Failure::Destination(Problem::Interrupted {
            registry: self.destination.registry().host().to_owned(),
            action: format!("store blob {}", self.blob.digest),
            reason: format!("it has all of it and does not answer for {} s", COMMIT_TIMEOUT.as_secs()),
        })
    }

    async fn begin(&self) -> Result<Upload, Problem> {
        if self.mountable {
            match self.destination.begin_upload(&self.blob, Some(&self.source)).await {
                // A registry that does not mount, or not for us, may still take the bytes.
                Err(Problem::Denied { .. } | Problem::Refused { .. }) => {}
                outcome => return outcome,
            }
        }
        self.destination.begin_upload(&self.blob, None).await
    }

    /// Reads the blob to its end. Where the connection breaks, it goes on at the byte where it broke.
    async fn read(&self, sender: Sender<Bytes>, attempts: &mut Attempts, counted: &mut Counted) -> Result<(), Failure> {
        let mut reader = Reader { transfer: self, sender, hasher: Hasher::default(), done: 0 };
        loop {
            match reader.go_on(counted).await {
                Err(Failure::Source(problem)) if attempts.another_after(&problem).await => {}
                outcome => return outcome,
            }
        }
    }
}

fn body(receiver: Receiver<Bytes>) -> Body {
    Body::wrap_stream(futures::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(piece), receiver))
    }))
}

/// Counts the bytes of one blob; those that are sent a second time count once.
struct Counted {
    sent: u64,
    progress: watch::Sender<Progress>,
}

impl Counted {
    fn up_to(&mut self, sent: u64) {
        if let Some(more) = sent.checked_sub(self.sent).filter(|more| *more > 0) {
            self.sent = sent;
            self.progress.send_modify(|progress| progress.bytes_done += more);
        }
    }
}

/// The state of reading that outlives a connection.
struct Reader<'a> {
    transfer: &'a Transfer,
    sender: Sender<Bytes>,
    hasher: Hasher,
    done: u64,
}

impl Reader<'_> {
    async fn go_on(&mut self, counted: &mut Counted) -> Result<(), Failure> {
        let Transfer { source, blob, options, .. } = self.transfer;
        let action = format!("read blob {}", blob.digest);
        if blob.size == 0 {
            return self.verify();
        }
        let mut response = source.blob(blob, self.done).await.map_err(Failure::Source)?;
        let mut known = if response.status() == StatusCode::PARTIAL_CONTENT { 0 } else { self.done };
        while self.done < blob.size {
            let piece = source.chunk(options.stall, &action, &mut response).await.map_err(Failure::Source)?;
            let Some(mut piece) = piece else {
                let reason = format!("it ends after {} of {} bytes", self.done, blob.size);
                return Err(Failure::Source(source.damaged(&what(blob), reason)));
            };
            let repeated = usize::try_from(known).unwrap_or(usize::MAX).min(piece.len());
            known -= repeated as u64;
            let piece = piece.split_off(repeated);
            if self.done + piece.len() as u64 > blob.size {
                let reason = format!("it is longer than {} bytes", blob.size);
                return Err(Failure::Source(source.damaged(&what(blob), reason)));
            }
            self.pass_on(piece, counted).await?;
        }
        Ok(())
    }

    /// Hands a piece to the destination; the last one only once the whole is known to be intact.
    async fn pass_on(&mut self, piece: Bytes, counted: &mut Counted) -> Result<(), Failure> {
        self.hasher.update(&piece);
        self.done += piece.len() as u64;
        if self.done == self.transfer.blob.size {
            self.verify()?;
        }
        let Transfer { destination, blob, options, .. } = self.transfer;
        let action = format!("take blob {}", blob.digest);
        let handed = async {
            // Nobody listens any more: the upload has ended, and knows why.
            let _ = self.sender.send(piece).await;
            Ok(())
        };
        destination.registry().in_time(options.stall, &action, handed).await.map_err(Failure::Destination)?;
        counted.up_to(self.done);
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let Transfer { source, blob, .. } = self.transfer;
        source.check(&what(blob), &blob.digest, &self.hasher.digest()).map_err(Failure::Source)
    }
}

fn what(blob: &Blob) -> String {
    format!("blob {}", blob.digest)
}
