//! The built-in stores: one bucket reached through the client library, with every upload verified.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::{Method, Signer};
use object_store::{ObjectStore as Client, ObjectStoreExt, PutMode, PutOptions, TagSet};

use crate::digest::ObjectDigest;
use crate::store::{put_and_look, settles};
use crate::transfer::{RESENDS, TransferSettings};
use crate::upload::{Beginning, Parts, upload};
use crate::{ByteStream, Error, ObjectInfo, ObjectStore, Result};

/// Why nobody can sign download URLs.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum NoSigner {
    /// Who reads an object has to send the key of the customer.
    #[error("objects encrypted with a customer's key cannot be read from a URL alone")]
    KeyOfCustomer,
    /// The store is a folder.
    #[error("a directory has no URLs; the file is to be read through the server")]
    Directory,
}

/// What a provider builds: the client, who signs URLs, and what each object is tagged with.
pub(crate) struct Backend {
    pub(crate) store: Arc<dyn Client>,
    /// Who lists keys by any prefix; without one, folders are listed and filtered.
    pub(crate) lister: Option<Arc<dyn PaginatedListStore>>,
    /// Who signs download URLs, or why nobody can.
    pub(crate) signer: Result<Arc<dyn Signer>, NoSigner>,
    pub(crate) tags: TagSet,
}

/// How long to wait before each further look at an object that is not as it was sent: what a store says of an object may
/// lag behind what it holds.
const LOOKS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// One bucket of a built-in provider.
pub(crate) struct BucketStore {
    backend: Backend,
    settings: TransferSettings,
    /// Whether the store was seen to refuse a second object where there must be none.
    knows_conditions: AtomicBool,
}

impl BucketStore {
    pub(crate) fn new(backend: Backend, settings: TransferSettings) -> Self {
        Self { backend, settings, knows_conditions: AtomicBool::new(false) }
    }

    /// Sends an object that is in memory, again if it arrived damaged.
    async fn put_whole(&self, key: &str, path: &Path, content: &Bytes) -> Result<()> {
        let send = || async {
            self.put_at_once(key, path, content).await?;
            self.verify(key, path, &ObjectDigest::whole(content)).await
        };
        send.retry(resends()).when(is_worth_sending_again).await
    }

    /// Sends an object in one request.
    async fn put_at_once(&self, key: &str, path: &Path, content: &Bytes) -> Result<()> {
        let options = PutOptions::from(self.backend.tags.clone());
        let sent = self.backend.store.put_opts(path, content.clone().into(), options).await;
        sent.map(drop).map_err(|source| Error::request("upload", key, source))
    }

    /// Compares what the store holds with what was sent. What differs is left: it may be what was there before.
    ///
    /// An ETag made the way S3 makes it is proof enough. Any other ETag says nothing, so the object is read back.
    async fn verify(&self, key: &str, path: &Path, sent: &ObjectDigest) -> Result<()> {
        let mut difference = self.difference(key, path, sent).await?;
        for pause in LOOKS {
            if difference.is_none() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            difference = self.difference(key, path, sent).await?;
        }
        difference.map_or(Ok(()), |detail| Err(Error::Damaged { key: key.to_owned(), detail }))
    }

    /// Asks the store to take an object only if there is none of its key; `None` when it does not know such conditions.
    async fn create(&self, key: &str, path: &Path, content: &Bytes) -> Result<Option<bool>> {
        let options = PutOptions { tags: self.backend.tags.clone(), ..PutOptions::from(PutMode::Create) };
        match self.backend.store.put_opts(path, content.clone().into(), options).await {
            Ok(_) => Ok(Some(true)),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Some(false))
            }
            Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => Ok(None),
            Err(source) if source.to_string().contains("NotImplemented") => Ok(None),
            Err(source) => Err(Error::request("create", key, source)),
        }
    }

    async fn difference(&self, key: &str, path: &Path, sent: &ObjectDigest) -> Result<Option<String>> {
        let held = match self.backend.store.head(path).await {
            Ok(held) => held,
            Err(object_store::Error::NotFound { .. }) => {
                return Ok(Some("the store does not have it".to_owned()));
            }
            Err(source) => return Err(Error::request("verify", key, source)),
        };
        if held.size != sent.size {
            return Ok(Some(format!("{} bytes were sent and {} are stored", sent.size, held.size)));
        }
        if held.e_tag.is_some_and(|etag| sent.is_proven_by(&etag)) {
            return Ok(None);
        }
        let stream = self.get_stream(key).await?;
        let found = sent.of_stream(stream, self.settings.part_size).await;
        let found =
            found.map_err(|source| Error::Request { action: "verify", key: key.to_owned(), source: source.into() })?;
        Ok((found != *sent).then(|| "the stored bytes are not those that were sent".to_owned()))
    }
}

/// How soon and how often something is sent again that arrived damaged.
fn resends() -> ExponentialBuilder {
    ExponentialBuilder::default().with_min_delay(Duration::from_millis(200)).with_max_times(RESENDS)
}

/// A damaged body, or one the store refused as damaged, may arrive whole the next time.
fn is_worth_sending_again(error: &Error) -> bool {
    match error {
        Error::Damaged { .. } => true,
        Error::Request { source, .. } => {
            let text = source.to_string();
            ["BadDigest", "SHA256Mismatch", "InvalidDigest", "Checksum"].iter().any(|code| text.contains(code))
        }
        _ => false,
    }
}

/// Asks for one page after the other, as they are taken.
fn list_pages(lister: &dyn PaginatedListStore, prefix: String) -> impl stream::Stream<Item = Result<ObjectInfo>> {
    let pages = stream::try_unfold(Some(None), move |page: Option<Option<String>>| {
        let prefix = prefix.clone();
        async move {
            let Some(page_token) = page else {
                return Ok::<_, Error>(None);
            };
            let options = PaginatedListOptions { page_token, ..Default::default() };
            let listed =
                lister.list_paginated(Some(&prefix).filter(|prefix| !prefix.is_empty()).map(String::as_str), options);
            let listed = listed.await.map_err(|source| Error::request("list", &prefix, source))?;
            let objects = listed.result.objects.into_iter().map(|object| Ok(object_info(object)));
            Ok(Some((stream::iter(objects.collect::<Vec<_>>()), listed.page_token.map(Some))))
        }
    });
    pages.try_flatten()
}

fn object_info(object: object_store::ObjectMeta) -> ObjectInfo {
    ObjectInfo { key: object.location.into(), size: object.size, modified: object.last_modified.into() }
}

fn object_path(key: &str) -> Result<Path> {
    let invalid = |problem: String| Error::InvalidKey { key: key.to_owned(), problem };
    if key.is_empty() || key.ends_with('/') || key.starts_with('/') {
        return Err(invalid("it must name an object and have no slash at either end".to_owned()));
    }
    Path::parse(key).map_err(|error| invalid(error.to_string()))
}

/// A folder as the client library writes it; an error says why no key can be in it.
pub(crate) fn folder_path(folder: &str) -> Result<Option<Path>> {
    match folder.trim_end_matches('/') {
        "" => Ok(None),
        trimmed => object_path(trimmed).map(Some),
    }
}

#[async_trait]
impl ObjectStore for BucketStore {
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
        let path = object_path(key)?;
        let parts = match Parts::begin(key, content, self.settings.part_size).await? {
            Beginning::Whole(content) => return self.put_whole(key, &path, &content).await,
            Beginning::More(parts) => parts,
        };
        let sent = upload(&self.backend, key, &path, parts, &self.settings).await?;
        self.verify(key, &path, &sent).await
    }

    async fn put_self_proving(&self, key: &str, content: Bytes) -> Result<()> {
        let path = object_path(key)?;
        let send = || async {
            self.put_at_once(key, &path, &content).await?;
            let held = self.backend.store.head(&path).await.map_err(|source| Error::request("verify", key, source))?;
            if held.size == content.len() as u64 {
                return Ok(());
            }
            let detail = format!("{} bytes were sent and {} are stored", content.len(), held.size);
            Err(Error::Damaged { key: key.to_owned(), detail })
        };
        send.retry(resends()).when(is_worth_sending_again).await
    }

    async fn put_if_absent(&self, key: &str, content: Bytes) -> Result<bool> {
        let path = object_path(key)?;
        match self.create(key, &path, &content).await {
            Ok(None) => return put_and_look(self, key, content).await,
            Ok(Some(false)) => return Ok(false),
            Ok(Some(true)) if self.knows_conditions.load(Ordering::Relaxed) => return Ok(true),
            // A store that takes it twice has not heard the condition.
            Ok(Some(true)) if self.create(key, &path, &content).await? == Some(false) => {
                self.knows_conditions.store(true, Ordering::Relaxed);
                return Ok(true);
            }
            Ok(Some(true)) => {}
            // It may have arrived.
            Err(error) => return if settles(self, key, &content).await? { Ok(true) } else { Err(error) },
        }
        settles(self, key, &content).await
    }

    async fn get_stream(&self, key: &str) -> Result<ByteStream> {
        let path = object_path(key)?;
        let found = self.backend.store.get(&path).await.map_err(|source| Error::request("read", key, source))?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }

    async fn get_range(&self, key: &str, offset: u64, length: usize) -> Result<Bytes> {
        let path = object_path(key)?;
        let range = offset..offset.saturating_add(length as u64);
        self.backend.store.get_range(&path, range).await.map_err(|source| Error::request("read", key, source))
    }

    async fn list_prefix(&self, prefix: &str) -> Result<BoxStream<'_, Result<ObjectInfo>>> {
        let prefix = prefix.to_owned();
        if let Some(lister) = self.backend.lister.as_deref() {
            return Ok(list_pages(lister, prefix).boxed());
        }
        let folder = folder_path(prefix.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        let listed = self.backend.store.list(folder.as_ref());
        let listed = listed.map_ok(object_info).map_err({
            let prefix = prefix.clone();
            move |source| Error::request("list", &prefix, source)
        });
        Ok(listed.try_filter(move |object| std::future::ready(object.key.starts_with(&prefix))).boxed())
    }

    async fn exists(&self, key: &str) -> Result<bool> {
        let path = object_path(key)?;
        match self.backend.store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(source) => Err(Error::request("look for", key, source)),
        }
    }

    async fn list_common_prefixes(&self, folder: &str) -> Result<Vec<String>> {
        let path = folder_path(folder)?;
        let listed = self.backend.store.list_with_delimiter(path.as_ref()).await;
        let listed = listed.map_err(|source| Error::request("list", folder, source))?;
        let mut folders: Vec<_> = listed.common_prefixes.iter().map(|prefix| format!("{prefix}/")).collect();
        folders.sort();
        Ok(folders)
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<String>> {
        let path = folder_path(folder)?;
        let listed = self.backend.store.list(path.as_ref()).map_ok(|object| object.location.to_string());
        let listed: Result<Vec<_>, _> = listed.try_collect().await;
        let mut keys = listed.map_err(|source| Error::request("list", folder, source))?;
        keys.retain(|key| key.starts_with(folder));
        keys.sort();
        Ok(keys)
    }

    async fn delete_object(&self, key: &str) -> Result<()> {
        let path = object_path(key)?;
        match self.backend.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(Error::request("delete", key, source)),
        }
    }

    async fn delete_objects(&self, keys: &[String]) -> Result<()> {
        const AT_ONCE: usize = 16;
        let deletions: Vec<_> = keys.iter().map(|key| self.delete_object(key)).collect();
        let outcomes: Vec<_> = stream::iter(deletions).buffer_unordered(AT_ONCE).collect().await;
        outcomes.into_iter().collect()
    }

    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String> {
        let path = object_path(key)?;
        let signer = self.backend.signer.as_ref();
        let signer =
            signer.map_err(|reason| Error::NotSupported { what: "a signed URL", reason: reason.to_string() })?;
        let url = signer.signed_url(Method::GET, &path, lifetime).await;
        Ok(url.map_err(|source| Error::request("sign a URL for", key, source))?.to_string())
    }
}

#[cfg(test)]
mod tests;
