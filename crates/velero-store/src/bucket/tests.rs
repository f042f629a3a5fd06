//! Uploads that do not arrive as sent, on a directory whose files are damaged behind the store's back.

use super::*;
use crate::StoreConfig;
use crate::providers::fs;
use futures::FutureExt;

async fn store() -> (tempfile::TempDir, BucketStore) {
    let directory = tempfile::tempdir().unwrap();
    let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
    let store = BucketStore::new(fs::open(&config).await.unwrap(), TransferSettings::default());
    (directory, store)
}

#[tokio::test]
async fn a_stored_object_that_differs_is_refused_and_left_to_who_knows_what_was_there() {
    let (directory, store) = store().await;
    let (path, file) = (Path::from("a"), directory.path().join("a"));
    let content = Bytes::from_static(b"what was sent");
    for damage in [b"what was Sent".as_slice(), b"what was", b""] {
        store.put_whole("a", &path, &content).await.unwrap();
        std::fs::write(&file, damage).unwrap();
        let error = store.verify("a", &path, &ObjectDigest::whole(&content)).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), damage, "it may be what was there before");
    }
    std::fs::remove_file(&file).unwrap();
    let error = store.verify("a", &path, &ObjectDigest::whole(&content)).await.unwrap_err();
    assert!(error.to_string().contains("the store does not have it"), "{error}");
}

#[tokio::test]
async fn what_proves_itself_is_stored_whole_in_one_request_and_its_length_is_compared() {
    let (directory, store) = store().await;
    for size in [0, 1, 20 << 20] {
        let content = Bytes::from(vec![7; size]);
        store.put_self_proving("a", content.clone()).await.unwrap();
        assert!(std::fs::read(directory.path().join("a")).unwrap() == content, "{size}");
    }
    // A folder cannot be replaced by an object.
    std::fs::create_dir_all(directory.path().join("b/c")).unwrap();
    assert!(store.put_self_proving("b", Bytes::from_static(b"x")).await.is_err());
}

#[tokio::test]
async fn an_object_sent_in_parts_is_read_back_in_the_same_parts() {
    let (directory, store) = store().await;
    let content: Vec<u8> = (0..20_000_000u32).map(|number| (number >> 8) as u8).collect();
    let chunks: Vec<_> = content.chunks(1 << 20).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let Beginning::More(parts) = Parts::begin("a", stream::iter(chunks).boxed(), 8 << 20).await.unwrap() else {
        panic!("the content is larger than a part")
    };
    let path = Path::from("a");
    let sent = upload(&store.backend, "a", &path, parts, &store.settings).await.unwrap();
    assert_eq!((sent.size, sent.parts.len()), (20_000_000, 3));
    store.verify("a", &path, &sent).await.unwrap();
    let mut damaged = content;
    damaged[15_000_000] ^= 1;
    std::fs::write(directory.path().join("a"), damaged).unwrap();
    assert!(matches!(store.verify("a", &path, &sent).await, Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn what_a_pipe_carries_is_stored_whole_in_any_number_of_parts() {
    let (directory, store) = store().await;
    for size in [1, 8 << 20, (8 << 20) + 1, 20 << 20] {
        let (mut writer, stream) = crate::pipe(4);
        let work = tokio::task::spawn_blocking(move || {
            std::io::Write::write_all(&mut writer, &vec![7; size])?;
            writer.finish()
        });
        store.put_stream("a", stream).await.unwrap();
        work.await.unwrap().unwrap();
        assert_eq!(std::fs::metadata(directory.path().join("a")).unwrap().len(), size as u64);
    }
}

#[tokio::test]
async fn a_cancelled_upload_leaves_nothing_behind() {
    let (directory, store) = store().await;
    let content = stream::iter([Ok(Bytes::from(vec![1; 20 << 20]))]).chain(stream::pending()).boxed();
    let upload = store.put_stream("a", content);
    tokio::time::timeout(Duration::from_millis(500), upload).map(|outcome| assert!(outcome.is_err())).await;
    for _ in 0..50 {
        if std::fs::read_dir(directory.path()).unwrap().count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("files of the cancelled upload are left");
}

#[test]
fn keys_must_name_an_object() {
    for key in ["", "/a", "a/", "a//b", "../a", "a/./b"] {
        assert!(object_path(key).is_err(), "{key:?}");
    }
    assert_eq!(object_path("backups/b1/é %20").unwrap().to_string(), "backups/b1/é %20");
}
