//! Many items, and sinks that fail, against a real API server.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::support::{Scene, config_maps};
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::sync::watch;
use velero_api::v1::BackupProgress;
use velero_archive::ArchiveReader;
use velero_engine::Journal;
use velero_engine::backup::{self, BackupError};
use velero_engine::journal::{Level, LogFormat};
use velero_testkit::cluster_test;

async fn fill(scene: &Scene, count: usize) {
    stream::iter(0..count)
        .map(|number| async move {
            let object = json!({"metadata": {"name": format!("item-{number}")}, "data": {"k": "v".repeat(500)}});
            scene.create(&config_maps(), object).await;
        })
        .buffer_unordered(16)
        .collect::<()>()
        .await;
}

#[test]
fn every_item_of_many_pages_is_stored_once_and_counted() {
    cluster_test(|test| async move {
        let mut scene = Scene::new(&test).await;
        fill(&scene, 1000).await;
        scene.page_size = 90;
        let taken = scene.back_up(scene.own_namespace()).await;
        let mut names = taken.names("configmaps", &scene.namespace);
        names.retain(|name| name.starts_with("item-"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 1000);
        assert_eq!(taken.progress.total_items, taken.progress.items_backed_up);
        assert!(taken.progress.items_backed_up >= 1000);
    });
}

/// A sink that breaks after some bytes.
struct Breaking {
    left: usize,
}

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left < bytes.len() {
            return Err(io::Error::other("the disk is full"));
        }
        self.left -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_breaks_ends_the_backup_with_its_reason() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        fill(&scene, 300).await;
        for left in [0, 3000] {
            let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
            let (sender, _receiver) = watch::channel(BackupProgress::default());
            let outcome = backup::run(scene.request(scene.own_namespace()), Breaking { left }, &journal, sender).await;
            let error = outcome.err().unwrap();
            assert!(matches!(error, BackupError::Archive(_)), "{error:?}");
            assert!(format!("{error:?}").contains("the disk is full"), "{error:?}");
        }
    });
}

/// A sink others can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_backup_that_is_given_up_leaves_an_archive_that_readers_refuse() {
    cluster_test(|test| async move {
        let scene = Scene::new(&test).await;
        fill(&scene, 600).await;
        let sink = Shared::default();
        let (request, copy) = (scene.request(scene.own_namespace()), sink.clone());
        let task = tokio::spawn(async move {
            let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
            let (sender, _receiver) = watch::channel(BackupProgress::default());
            backup::run(request, copy, &journal, sender).await.map(|_| ())
        });
        while sink.0.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        task.abort();
        if task.await.is_err_and(|error| error.is_cancelled()) {
            // The thread that writes ends once it sees that nobody sends any more.
            while Arc::strong_count(&sink.0) > 1 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let bytes = sink.0.lock().unwrap().clone();
            let read = ArchiveReader::new(bytes.as_slice()).for_each(|_| Ok::<(), velero_archive::Error>(()));
            assert!(read.is_err());
        }
    });
}
