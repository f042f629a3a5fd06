//! The copy of one image: plan it, move the blobs, write the manifests.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::blob::{Failure, Moved, Transfer};
use crate::manifest::Platform;
use crate::plan::Plan;
use crate::{CopyError, Digest, Image, Problem, Retry};

/// How an image is copied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which parts of an image for several platforms are copied.
    pub platforms: Platforms,
    /// How many blobs move at the same time.
    pub parallel: usize,
    /// How often and when something is tried again.
    pub retry: Retry,
    /// How long a connection may stand still before it is taken for broken.
    pub stall: Duration,
    /// Where the progress is told: subscribe before the copy begins.
    pub progress: watch::Sender<Progress>,
    /// Ends the copy. Dropping the future does the same.
    pub cancel: CancellationToken,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            platforms: Platforms::All,
            parallel: 4,
            retry: Retry::default(),
            stall: Duration::from_secs(60),
            progress: watch::Sender::default(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Which parts of an image for several platforms are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Platforms {
    /// All, and the list of them: the digest stays the same.
    #[default]
    All,
    /// One alone: its digest is that of the copy. An image for one platform is copied whichever it is.
    One(Platform),
}

/// How far a copy is. Blobs the destination has already count as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are at the destination or were sent there; it never goes back.
    pub bytes_done: u64,
    /// Bytes of all blobs; zero until the manifests are read.
    pub bytes_total: u64,
}

/// What a copy did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The digest of the image at the destination.
    pub digest: Digest,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Bytes that the destination had already, or found in another repository of its own.
    pub skipped: u64,
}

/// Copies an image. See the crate's description for what is promised.
pub async fn copy(source: &Image, destination: &Image, options: &Options) -> Result<Copied, CopyError> {
    tokio::select! {
        biased;
        () = options.cancel.cancelled() => Err(Problem::Cancelled.for_image(source.reference())),
        outcome = copy_all(source, destination, options) => outcome,
    }
}

async fn copy_all(source: &Image, destination: &Image, options: &Options) -> Result<Copied, CopyError> {
    let of_source = |problem: Problem| problem.for_image(source.reference());
    let of_destination = |problem: Problem| problem.for_image(destination.reference());
    let plan = Plan::make(source, options).await.map_err(of_source)?;
    let Some(digest) = plan.manifests.last().map(|manifest| manifest.digest.clone()) else {
        return Err(of_source(Problem::Unsupported { reason: "it has no manifest".into() }));
    };
    if let Some(wanted) = destination.reference().digest().filter(|wanted| **wanted != digest) {
        let reason = format!("its digest is {digest}, the destination asks for {wanted}");
        return Err(of_source(Problem::Unsupported { reason }));
    }
    let total = plan.bytes();
    options.progress.send_replace(Progress { bytes_done: 0, bytes_total: total });

    let mountable = source.registry().is_same_as(destination.registry());
    let destination = destination.for_writing();
    let bytes = move_blobs(&plan, source, &destination, mountable, options).await?;
    write_manifests(&plan, &destination, options).await.map_err(of_destination)?;
    debug!(image = %source.reference(), %digest, bytes, "image copied");
    Ok(Copied { digest, bytes, skipped: total.saturating_sub(bytes) })
}

/// Moves the blobs the destination lacks, and gives the number of bytes.
async fn move_blobs(
    plan: &Plan,
    source: &Image,
    destination: &Image,
    mountable: bool,
    options: &Options,
) -> Result<u64, CopyError> {
    let mut waiting = plan.blobs.iter();
    let mut running = JoinSet::new();
    let mut bytes = 0;
    loop {
        while running.len() < options.parallel.max(1)
            && let Some(blob) = waiting.next().cloned()
        {
            let transfer = Transfer {
                source: source.clone(),
                destination: destination.clone(),
                mountable,
                blob,
                options: options.clone(),
            };
            running.spawn(async move { (transfer.blob.size, transfer.run().await) });
        }
        match running.join_next().await {
            None => return Ok(bytes),
            Some(Ok((size, Ok(Moved::Yes)))) => bytes += size,
            Some(Ok((_, Ok(Moved::No)))) => {}
            Some(Ok((_, Err(Failure::Source(problem))))) => return Err(problem.for_image(source.reference())),
            Some(Ok((_, Err(Failure::Destination(problem))))) => return Err(problem.for_image(destination.reference())),
            // A blob's task ends without an outcome only when the whole process ends.
            Some(Err(_)) => return Err(Problem::Cancelled.for_image(source.reference())),
        }
    }
}

/// Writes the manifests, each after those it refers to: the image under its tag, where it has one.
async fn write_manifests(plan: &Plan, destination: &Image, options: &Options) -> Result<(), Problem> {
    let last = plan.manifests.len().saturating_sub(1);
    for (index, manifest) in plan.manifests.iter().enumerate() {
        let tag = destination.reference().tag().filter(|_| index == last);
        let version = tag.unwrap_or(manifest.digest.as_str());
        options.retry.run(|| destination.put_manifest(version, manifest)).await?;
    }
    Ok(())
}
