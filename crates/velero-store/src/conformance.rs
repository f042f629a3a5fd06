//! The checks every object store must pass, whether built in or behind a plugin.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};

use crate::{ByteStream, Error, ObjectStoreHandle, read_all};

/// A check that a store failed.
#[derive(Debug, thiserror::Error)]
#[error("{check}: {problem}")]
pub struct Failure {
    /// What was checked, as a sentence.
    pub check: &'static str,
    /// What was found instead.
    pub problem: String,
}

type Outcome = Result<(), String>;

/// More than two parts of any size in use, and not a whole number of them.
const LARGE: usize = (20 << 20) + 12_345;

/// Runs all checks below `folder`, which ends in a slash, and removes what they wrote.
pub async fn run(store: &ObjectStoreHandle, folder: &str) -> Result<(), Failure> {
    let suite = Suite { store: store.clone(), folder: folder.to_owned() };
    let outcome = suite.run().await;
    suite.clean().await;
    outcome
}

struct Suite {
    store: ObjectStoreHandle,
    folder: String,
}

impl Suite {
    async fn run(&self) -> Result<(), Failure> {
        let named = |check, outcome: Outcome| outcome.map_err(|problem| Failure { check, problem });
        named("an object reads back as written", self.round_trip().await)?;
        named("an empty object exists", self.empty().await)?;
        named("writing again replaces the object", self.overwrite().await)?;
        named("a missing key is not found", self.missing().await)?;
        named("odd characters in a key are kept", self.odd_characters().await)?;
        named("folders and objects are listed", self.listing().await)?;
        named("many objects are all listed", self.many().await)?;
        named("deleting removes one object and may be repeated", self.deleting().await)?;
        named("a large object is stored in parts", self.large().await)?;
        named("content that fails leaves no object", self.failing_content().await)?;
        named("a signed URL is given or refused clearly", self.signed_url().await)
    }

    async fn clean(&self) {
        if let Ok(keys) = self.store.list_objects(&self.folder).await {
            let _ = self.store.delete_objects(&keys).await;
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    async fn expect_content(&self, key: &str, expected: &[u8]) -> Outcome {
        let stream = self.store.get_stream(key).await.map_err(text)?;
        let found = read_all(key, stream, LARGE * 2).await.map_err(text)?;
        check(found == expected, || {
            format!("{key:?} has {} bytes that differ from the {} written", found.len(), expected.len())
        })
    }

    async fn round_trip(&self) -> Outcome {
        let key = self.key("round/trip.bin");
        let content: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        self.store.put(&key, content.clone().into()).await.map_err(text)?;
        check(self.store.exists(&key).await.map_err(text)?, || "it does not exist after writing".to_owned())?;
        self.expect_content(&key, &content).await
    }

    async fn empty(&self) -> Outcome {
        let key = self.key("empty");
        self.store.put(&key, Bytes::new()).await.map_err(text)?;
        check(self.store.exists(&key).await.map_err(text)?, || "it does not exist".to_owned())?;
        self.expect_content(&key, b"").await
    }

    async fn overwrite(&self) -> Outcome {
        let key = self.key("overwrite");
        self.store.put(&key, Bytes::from_static(b"the first, longer content")).await.map_err(text)?;
        self.store.put(&key, Bytes::from_static(b"second")).await.map_err(text)?;
        self.expect_content(&key, b"second").await
    }

    async fn missing(&self) -> Outcome {
        let key = self.key("missing");
        check(!self.store.exists(&key).await.map_err(text)?, || "it exists".to_owned())?;
        match self.store.get_stream(&key).await {
            Err(Error::NotFound { .. }) => Ok(()),
            Err(other) => Err(format!("reading it gives another error: {other}")),
            Ok(_) => Err("it can be read".to_owned()),
        }
    }

    async fn odd_characters(&self) -> Outcome {
        for name in ["with space", "plus+sign", "a=b&c", "per%20cent", "é-ü-漢", "colon:at@", "q?uestion", "(paren)'s!"]
        {
            let key = self.key(&format!("odd/{name}.json.gz"));
            self.store.put(&key, Bytes::from(name)).await.map_err(text)?;
            self.expect_content(&key, name.as_bytes()).await?;
            let listed = self.store.list_objects(&self.key("odd/")).await.map_err(text)?;
            check(listed.contains(&key), || format!("{key:?} is not among {listed:?}"))?;
            self.store.delete_object(&key).await.map_err(text)?;
            check(!self.store.exists(&key).await.map_err(text)?, || format!("{key:?} exists after deleting"))?;
        }
        Ok(())
    }

    async fn listing(&self) -> Outcome {
        for name in ["list/top", "list/b1/x", "list/b1/deep/y", "list/b10/x", "list/b2/x"] {
            self.store.put(&self.key(name), Bytes::from_static(b"x")).await.map_err(text)?;
        }
        let expected = |names: &[&str]| names.iter().map(|name| self.key(name)).collect::<Vec<_>>();
        let folders = self.store.list_common_prefixes(&self.key("list/")).await.map_err(text)?;
        equal(&folders, &expected(&["list/b1/", "list/b10/", "list/b2/"]))?;
        let objects = self.store.list_objects(&self.key("list/b1/")).await.map_err(text)?;
        equal(&objects, &expected(&["list/b1/deep/y", "list/b1/x"]))?;
        equal(&self.store.list_objects(&self.key("list/absent/")).await.map_err(text)?, &[])?;
        equal(&self.store.list_common_prefixes(&self.key("list/absent/")).await.map_err(text)?, &[])
    }

    /// More objects than one page of a listing holds.
    async fn many(&self) -> Outcome {
        const MANY: usize = 1_050;
        let keys: Vec<_> = (0..MANY).map(|number| self.key(&format!("many/{number:04}/x"))).collect();
        let writes: Vec<_> = keys.iter().map(|key| self.store.put(key, Bytes::from_static(b"x"))).collect();
        let written: Vec<_> = stream::iter(writes).buffer_unordered(32).collect().await;
        written.into_iter().collect::<Result<(), _>>().map_err(text)?;
        equal(&self.store.list_objects(&self.key("many/")).await.map_err(text)?, &keys)?;
        let folders = self.store.list_common_prefixes(&self.key("many/")).await.map_err(text)?;
        check(folders.len() == MANY, || format!("{} of {MANY} folders are listed", folders.len()))?;
        self.store.delete_objects(&keys).await.map_err(text)?;
        equal(&self.store.list_objects(&self.key("many/")).await.map_err(text)?, &[])
    }

    async fn deleting(&self) -> Outcome {
        let (key, neighbour) = (self.key("delete/a"), self.key("delete/ab"));
        for key in [&key, &neighbour] {
            self.store.put(key, Bytes::from_static(b"x")).await.map_err(text)?;
        }
        self.store.delete_object(&key).await.map_err(text)?;
        self.store.delete_object(&key).await.map_err(text)?;
        check(!self.store.exists(&key).await.map_err(text)?, || "it exists after deleting".to_owned())?;
        check(self.store.exists(&neighbour).await.map_err(text)?, || "a neighbour was deleted".to_owned())
    }

    async fn large(&self) -> Outcome {
        let key = self.key("large.tar.gz");
        let content = large_content();
        let chunks: Vec<_> = content.chunks(300_001).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        self.store.put_stream(&key, stream::iter(chunks).boxed()).await.map_err(text)?;
        self.expect_content(&key, &content).await
    }

    async fn failing_content(&self) -> Outcome {
        for length in [1_000, LARGE] {
            let key = self.key("failing");
            let pieces = [Ok(Bytes::from(vec![1; length])), Err(io::Error::other("the producer failed"))];
            let content: ByteStream = stream::iter(pieces).boxed();
            let outcome = self.store.put_stream(&key, content).await;
            check(outcome.is_err(), || format!("an upload that failed after {length} bytes passes for complete"))?;
            check(!self.store.exists(&key).await.map_err(text)?, || format!("an object is left after {length} bytes"))?;
        }
        Ok(())
    }

    async fn signed_url(&self) -> Outcome {
        let key = self.key("signed");
        self.store.put(&key, Bytes::from_static(b"x")).await.map_err(text)?;
        match self.store.signed_url(&key, Duration::from_secs(600)).await {
            Ok(url) => check(url.starts_with("http"), || format!("{url:?} is not a URL")),
            Err(Error::NotSupported { .. }) => Ok(()),
            Err(other) => Err(other.to_string()),
        }
    }
}

/// Bytes without a pattern, so that parts in the wrong order are noticed.
fn large_content() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..LARGE).map(|_| next()).collect()
}

#[allow(clippy::needless_pass_by_value)]
fn text(error: Error) -> String {
    error.to_string()
}

fn check(holds: bool, problem: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(problem()) }
}

fn equal(found: &[String], expected: &[String]) -> Outcome {
    check(found == expected, || format!("found {found:?} instead of {expected:?}"))
}
