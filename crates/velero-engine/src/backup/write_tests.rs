use tokio::sync::watch;
use velero_api::v1::BackupProgress;
use velero_archive::ArchiveReader;
use velero_cluster::types;

use super::*;
use crate::journal::{Level, LogFormat};

const VERSION: usize = 1;

fn planned() -> Arc<PlannedType> {
    let mut resource_type = types::CONFIG_MAPS.clone();
    resource_type.preferred = true;
    Arc::new(PlannedType::for_test(0, resource_type))
}

fn raw(planned: &Arc<PlannedType>, name: &str) -> Record {
    let text = format!(r#"{{"metadata":{{"namespace":"shop","name":"{name}"}}}}"#);
    let raw = RawItem::new(Arc::clone(&planned.resource_type), text.into_bytes().into()).unwrap();
    Record::unchanged(Arc::clone(planned), raw)
}

fn renamed(planned: &Arc<PlannedType>, from: &str, to: &str) -> Record {
    let namespace = Some("shop".to_owned());
    Record {
        planned: Arc::clone(planned),
        renamed_from: Some((namespace.clone(), from.to_owned())),
        body: Body::Changed { namespace, name: to.to_owned(), json: b"{}".to_vec() },
    }
}

struct Written {
    paths: Vec<String>,
    errors: Vec<String>,
    counted: i64,
}

/// Writes records as a backup does.
async fn write(records: Vec<Record>, limits: Limits) -> Result<Written, BackupError> {
    let (progress, counted) = watch::channel(BackupProgress::default());
    let ledger = Arc::new(Ledger::new(1, progress));
    let journal = Journal::for_backup("velero", "b", LogFormat::Text, Level::Info);
    let (archive, channel) = start(Vec::new(), limits, &journal, &ledger);
    for record in &records {
        assert!(ledger.take(record.identity()));
    }
    channel.send(records).await?;
    let flushed = channel.flush().await;
    let bytes = archive.close(flushed).await?;
    let mut paths = Vec::new();
    let read = ArchiveReader::new(bytes.as_slice()).for_each(|entry| {
        paths.push(entry.path.to_owned());
        Ok::<(), Error>(())
    });
    read.expect("what a backup writes can be read");
    let errors = journal.results().errors.namespaces.remove("shop").unwrap_or_default();
    let counted = counted.borrow().items_backed_up;
    Ok(Written { paths, errors, counted })
}

fn names(written: &Written) -> Vec<&str> {
    let plain = written.paths.iter().filter_map(|path| path.strip_prefix("resources/configmaps/namespaces/shop/"));
    plain.map(|file| file.trim_end_matches(".json")).collect()
}

#[tokio::test]
async fn an_item_that_is_renamed_onto_another_is_an_error_of_the_one_that_comes_later() {
    let planned = planned();
    for (records, kept, error) in [
        (vec![raw(&planned, "a"), renamed(&planned, "b", "a")], vec!["a"], "renamed it to shop/a"),
        (vec![renamed(&planned, "b", "a"), raw(&planned, "a")], vec!["a"], "renamed configmaps shop/b to shop/a"),
        (vec![renamed(&planned, "b", "x"), renamed(&planned, "c", "x")], vec!["x"], "renamed it to shop/x"),
    ] {
        let written = write(records, Limits::default()).await.unwrap();
        assert_eq!(names(&written), kept, "{error}");
        assert_eq!(written.paths.len(), VERSION + 2);
        assert_eq!(written.errors.len(), 1);
        assert!(written.errors[0].contains(error), "{:?}", written.errors);
        assert_eq!(written.counted, 1);
    }
}

#[tokio::test]
async fn items_that_swap_their_names_are_both_kept() {
    let planned = planned();
    let records = vec![renamed(&planned, "a", "b"), renamed(&planned, "b", "a"), raw(&planned, "c")];
    let written = write(records, Limits::default()).await.unwrap();
    assert_eq!(names(&written), ["b", "a", "c"]);
    assert!(written.errors.is_empty(), "{:?}", written.errors);
}

#[tokio::test]
async fn an_item_counts_when_all_its_copies_are_in_the_archive_and_else_it_has_none() {
    let planned = planned();
    // The copy under the version is longer than the other, and only that is too long.
    let limits = Limits { path_length: 70, ..Limits::default() };
    let written = write(vec![raw(&planned, "short"), raw(&planned, "rather-long")], limits).await.unwrap();
    assert_eq!(names(&written), ["short"]);
    assert_eq!((written.paths.len(), written.counted), (VERSION + 2, 1));
    assert!(written.errors[0].contains("more than the 70 allowed"), "{:?}", written.errors);
}

#[tokio::test]
async fn a_backup_that_no_restore_would_read_fails_and_says_so() {
    let planned = planned();
    let records = || ["a", "b", "c"].map(|name| raw(&planned, name)).into();
    let limit = |entries| Limits { entries, ..Limits::default() };
    assert_eq!(write(records(), limit(7)).await.unwrap().counted, 3);
    let error = write(records(), limit(6)).await.err().expect("one entry too many");
    assert!(error.to_string().contains("more than 6 entries") && error.to_string().contains("--max-archive-entries"));
}
