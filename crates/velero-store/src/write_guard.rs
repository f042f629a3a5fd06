//! A store that is changed only while this process may change anything.
//!
//! It is asked at each step: an upload that was on its way when the answer became no sends nothing more, is not completed and
//! not tried again. As long as nobody knows, it waits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use velero_api::WriteGuard;

use crate::{ByteStream, Error, ObjectInfo, ObjectStore, ObjectStoreHandle, Result};

/// A store that is changed only while a guard says that it may be.
pub fn guarded(store: ObjectStoreHandle, guard: WriteGuard) -> ObjectStoreHandle {
    Arc::new(Guarded { store, guard })
}

struct Guarded {
    store: ObjectStoreHandle,
    guard: WriteGuard,
}

impl Guarded {
    /// Goes on with a change of the store as long as it may.
    async fn watch<T>(&self, action: &'static str, key: &str, change: impl Future<Output = Result<T>>) -> Result<T> {
        let mut change = pin!(change);
        let mut settling = None;
        poll_fn(|context| {
            while !self.guard.is_open() {
                let settled = ready!(settling.get_or_insert_with(|| self.guard.settled()).as_mut().poll(context));
                settling = None;
                if let Err(reason) = settled {
                    return Poll::Ready(Err(Error::Request { action, key: key.to_owned(), source: reason.into() }));
                }
            }
            change.as_mut().poll(context)
        })
        .await
    }
}

#[async_trait]
impl ObjectStore for Guarded {
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
        self.watch("upload", key, self.store.put_stream(key, content)).await
    }

    async fn put(&self, key: &str, content: Bytes) -> Result<()> {
        self.watch("upload", key, self.store.put(key, content)).await
    }

    async fn put_self_proving(&self, key: &str, content: Bytes) -> Result<()> {
        self.watch("upload", key, self.store.put_self_proving(key, content)).await
    }

    async fn put_if_absent(&self, key: &str, content: Bytes) -> Result<bool> {
        self.watch("create", key, self.store.put_if_absent(key, content)).await
    }

    async fn get_stream(&self, key: &str) -> Result<ByteStream> {
        self.store.get_stream(key).await
    }

    async fn get_range(&self, key: &str, offset: u64, length: usize) -> Result<Bytes> {
        self.store.get_range(key, offset, length).await
    }

    async fn list_prefix(&self, prefix: &str) -> Result<BoxStream<'_, Result<ObjectInfo>>> {
        self.store.list_prefix(prefix).await
    }

    async fn exists(&self, key: &str) -> Result<bool> {
        self.store.exists(key).await
    }

    async fn list_common_prefixes(&self, folder: &str) -> Result<Vec<String>> {
        self.store.list_common_prefixes(folder).await
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<String>> {
        self.store.list_objects(folder).await
    }

    async fn delete_object(&self, key: &str) -> Result<()> {
        self.watch("delete", key, self.store.delete_object(key)).await
    }

    async fn delete_objects(&self, keys: &[String]) -> Result<()> {
        let first = keys.first().map_or("", String::as_str);
        self.watch("delete", first, self.store.delete_objects(keys)).await
    }

    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String> {
        self.store.signed_url(key, lifetime).await
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, StreamExt};
    use tokio::sync::watch;
    use velero_api::WriteRefused;

    use super::*;
    use crate::{StoreConfig, read_all};

    /// A guard that is open on `Some(true)`, in doubt on `None` and closed on `Some(false)`.
    fn steered() -> (watch::Sender<Option<bool>>, WriteGuard) {
        let (steer, state) = watch::channel(Some(true));
        let asked = state.clone();
        let guard = WriteGuard::new(
            move || *asked.borrow() == Some(true),
            move || {
                let mut state = state.clone();
                Box::pin(async move {
                    let settled = state.wait_for(Option::is_some).await.is_ok_and(|state| *state == Some(true));
                    if settled { Ok(()) } else { Err(WriteRefused("it is over".to_owned())) }
                })
            },
        );
        (steer, guard)
    }

    /// Two halves; between them the guard is steered, and somebody waits a moment.
    fn halves(steer: &watch::Sender<Option<bool>>, between: Option<bool>) -> ByteStream {
        let steer = steer.clone();
        let halves = stream::iter([b"one", b"two"]).then(move |half| {
            let steer = steer.clone();
            async move {
                if half == b"two" {
                    steer.send_replace(between);
                    tokio::task::yield_now().await;
                }
                Ok(Bytes::from_static(half))
            }
        });
        halves.boxed()
    }

    #[tokio::test]
    async fn a_store_is_changed_only_as_long_as_it_may_be_and_read_after_that_too() {
        let folder = tempfile::tempdir().unwrap();
        let (steer, guard) = steered();
        let bucket = folder.path().display().to_string();
        let config = StoreConfig { write_guard: Some(guard), ..StoreConfig::new("fs", bucket) };
        let store = config.open().await.unwrap();
        store.put("backups/a", Bytes::from_static(b"a")).await.unwrap();

        let upload = store.put_stream("backups/doubt", halves(&steer, None));
        let settled = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(store.list_objects("backups/").await.unwrap(), ["backups/a"], "it did not wait");
            steer.send_replace(Some(true));
        };
        let (uploaded, ()) = futures::join!(upload, settled);
        uploaded.unwrap();

        let cut = store.put_stream("backups/b", halves(&steer, Some(false))).await.unwrap_err();
        assert!(cut.to_string().contains("it is over"), "{cut}");
        for refused in [
            store.put("backups/c", Bytes::new()).await,
            store.put_if_absent("backups/c", Bytes::new()).await.map(drop),
            store.delete_object("backups/a").await,
            store.delete_objects(&["backups/a".to_owned()]).await,
        ] {
            assert!(refused.unwrap_err().to_string().contains("it is over"));
        }
        assert_eq!(store.list_objects("backups/").await.unwrap(), ["backups/a", "backups/doubt"]);
        let stored = store.get_stream("backups/a").await.unwrap();
        assert_eq!(read_all("backups/a", stored, 10).await.unwrap(), "a");
    }
}
