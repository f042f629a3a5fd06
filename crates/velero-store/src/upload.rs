//! Uploading a stream of unknown length in parts, with bounded memory and nothing left behind on failure.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{Fuse, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{MultipartUpload, PutMultipartOptions};
use tokio::task::JoinSet;

use crate::bucket::Backend;
use crate::digest::{ObjectDigest, PartDigest, part_digest};
use crate::transfer::{ResendDamagedPart, TransferSettings};
use crate::{ByteStream, Error, Result};

/// How long a store that just failed is asked to remove the parts it has.
const ABORT_PATIENCE: Duration = Duration::from_secs(10);

/// The first part of a stream: all of it, or the beginning of more.
pub(crate) enum Beginning {
    /// The stream ended within the first part.
    Whole(Bytes),
    /// The first part is full and more may follow.
    More(Parts),
}

/// Cuts a stream into parts of equal size.
pub(crate) struct Parts {
    key: String,
    /// Asked again after its end, by the part that finds nothing left; not every stream bears that.
    stream: Fuse<ByteStream>,
    rest: BytesMut,
    part_size: usize,
}

impl Parts {
    /// Reads the first part.
    pub(crate) async fn begin(key: &str, stream: ByteStream, part_size: usize) -> Result<Beginning> {
        let mut parts = Self { key: key.to_owned(), stream: stream.fuse(), rest: BytesMut::new(), part_size };
        parts.fill().await?;
        if parts.rest.len() < part_size {
            return Ok(Beginning::Whole(parts.rest.freeze()));
        }
        Ok(Beginning::More(parts))
    }

    async fn fill(&mut self) -> Result<()> {
        while self.rest.len() < self.part_size {
            let chunk = self.stream.try_next().await;
            let chunk = chunk.map_err(|source| Error::Content { key: self.key.clone(), source })?;
            let Some(chunk) = chunk else { break };
            self.rest.extend_from_slice(&chunk);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        self.fill().await?;
        let length = self.rest.len().min(self.part_size);
        Ok((length > 0).then(|| self.rest.split_to(length).freeze()))
    }
}

/// Uploads all parts and completes the object; on failure or cancellation the upload is aborted.
pub(crate) async fn upload(
    backend: &Backend,
    key: &str,
    path: &Path,
    parts: Parts,
    settings: &TransferSettings,
) -> Result<ObjectDigest> {
    let options =
        PutMultipartOptions::from(backend.tags.clone()).with_retry_policy(std::sync::Arc::new(ResendDamagedPart));
    let upload = backend.store.put_multipart_opts(path, options).await;
    let upload = upload.map_err(|source| Error::request("begin the upload of", key, source))?;
    let mut session = Session { upload: Some(upload), tasks: JoinSet::new(), digests: Vec::new(), size: 0 };
    match session.run(key, parts, settings.parts_in_flight.max(1)).await {
        Ok(()) => Ok(ObjectDigest { size: session.size, parts: std::mem::take(&mut session.digests), multipart: true }),
        Err(error) => {
            session.abort(key).await;
            Err(error)
        }
    }
}

type PartOutcome = (usize, object_store::Result<PartDigest>);

/// One multipart upload while it runs.
struct Session {
    upload: Option<Box<dyn MultipartUpload>>,
    tasks: JoinSet<PartOutcome>,
    digests: Vec<PartDigest>,
    size: u64,
}

impl Session {
    async fn run(&mut self, key: &str, mut parts: Parts, in_flight: usize) -> Result<()> {
        while let Some(part) = parts.next().await? {
            while self.tasks.len() >= in_flight {
                self.settle_one(key).await?;
            }
            self.start(part);
        }
        while !self.tasks.is_empty() {
            self.settle_one(key).await?;
        }
        let Some(upload) = self.upload.as_mut() else {
            return Ok(());
        };
        upload.complete().await.map_err(|source| Error::request("complete the upload of", key, source))?;
        self.upload = None;
        Ok(())
    }

    fn start(&mut self, part: Bytes) {
        let Some(upload) = self.upload.as_mut() else {
            return;
        };
        let index = self.digests.len();
        self.digests.push(PartDigest::default());
        self.size += part.len() as u64;
        let request = upload.put_part(part.clone().into());
        self.tasks.spawn(async move {
            let digest = part_digest(&part);
            drop(part);
            (index, request.await.map(|()| digest))
        });
    }

    async fn settle_one(&mut self, key: &str) -> Result<()> {
        let Some(joined) = self.tasks.join_next().await else {
            return Ok(());
        };
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Request {
            action: "upload a part of",
            key: key.to_owned(),
            source,
        };
        let (index, outcome) = joined.map_err(|error| failed(error.into()))?;
        self.digests[index] = outcome.map_err(|error| failed(error.into()))?;
        Ok(())
    }

    async fn abort(&mut self, key: &str) {
        self.tasks.shutdown().await;
        let Some(mut upload) = self.upload.take() else { return };
        let problem = match tokio::time::timeout(ABORT_PATIENCE, upload.abort()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no success within {} seconds", ABORT_PATIENCE.as_secs()),
        };
        tracing::warn!(key, problem, "the parts of a failed upload could not be removed");
    }
}

impl Drop for Session {
    /// A cancelled upload must not leave parts that are paid for and never seen.
    fn drop(&mut self) {
        self.tasks.abort_all();
        if let (Some(mut upload), Ok(runtime)) = (self.upload.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { upload.abort().await });
        }
    }
}
