//! Every course of operations, and how it ends: one table for backups, one for restores.
//!
//! A row says which operations there are. What a watcher saw, the counters, the errors in the status, in the results
//! and in the metrics are all compared with what the row expects.

use std::fs;
use std::path::Path;

use futures::future::join_all;
use velero_api::GoDuration;
use velero_api::records::{BackupOperation, OperationPhase, RestoreOperation, ResultsFile};
use velero_api::v1::{Backup, BackupPhase, BackupSpec, Restore, RestorePhase, RestoreSpec};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::steered::{BACKUP_ACTION, Courses, PhaseWatch, RESTORE_ACTION, Steering};
use crate::support::{Server, assert_phase, delete_namespace, read, settings};

/// One backup or restore, and what is expected of it.
struct Row {
    name: &'static str,
    courses: &'static [&'static str],
    /// Attempted, completed, failed.
    counters: (i64, i64, i64),
    /// The phases after InProgress.
    phases: &'static [&'static str],
    /// A piece of each error.
    errors: &'static [&'static str],
    /// How many operations are cancelled.
    cancelled: usize,
}

const WAITING: &str = "WaitingForPluginOperations";
const WAITING_FAILED: &str = "WaitingForPluginOperationsPartiallyFailed";
const FINALIZING: &str = "Finalizing";
const FINALIZING_FAILED: &str = "FinalizingPartiallyFailed";
const COMPLETED: &str = "Completed";
const FAILED: &str = "PartiallyFailed";

const fn row(
    name: &'static str,
    courses: &'static [&'static str],
    counters: (i64, i64, i64),
    phases: &'static [&'static str],
    errors: &'static [&'static str],
) -> Row {
    Row { name, courses, counters, phases, errors, cancelled: 0 }
}

const NO_SPACE: &str = "no space left, plugin: test.velero.io/";
const NOBODY: &str = "nobody answers, plugin: test.velero.io/";
const LATE: &str = "Asynchronous action timed out, plugin: test.velero.io/";
const UNKNOWN: &str = "is not known to action test.velero.io/";
const UNSUPPORTED: &str = "does not start asynchronous operations, plugin: test.velero.io/";
const REFUSED: &str = "the item asked for a refusal";

const BACKUPS: [Row; 16] = [
    row("none", &[], (0, 0, 0), &[COMPLETED], &[]),
    row("at-once", &["takes=1"], (1, 1, 0), &[FINALIZING, COMPLETED], &[]),
    row("slow", &["takes=3"], (1, 1, 0), &[WAITING, FINALIZING, COMPLETED], &[]),
    row("two-speeds", &["takes=1", "takes=3"], (2, 2, 0), &[WAITING, FINALIZING, COMPLETED], &[]),
    row("many", &["takes=2"; 40], (40, 40, 0), &[WAITING, FINALIZING, COMPLETED], &[]),
    row("fails-at-once", &["fails=1"], (1, 0, 1), &[FINALIZING_FAILED, FAILED], &[NO_SPACE]),
    row("fails-late", &["fails=2"], (1, 0, 1), &[WAITING, FINALIZING_FAILED, FAILED], &[NO_SPACE]),
    row(
        "fails-while-another-runs",
        &["fails=2", "takes=4"],
        (2, 1, 1),
        &[WAITING, WAITING_FAILED, FINALIZING_FAILED, FAILED],
        &[NO_SPACE],
    ),
    row(
        "fails-at-once-while-another-runs",
        &["fails=1", "takes=3"],
        (2, 1, 1),
        &[WAITING_FAILED, FINALIZING_FAILED, FAILED],
        &[NO_SPACE],
    ),
    row(
        "all-fail",
        &["fails=1", "fails=2", "fails=3"],
        (3, 0, 3),
        &[WAITING_FAILED, FINALIZING_FAILED, FAILED],
        &[NO_SPACE, NO_SPACE, NO_SPACE],
    ),
    Row { cancelled: 1, ..row("no-answer-at-once", &["errs=1"], (1, 0, 1), &[FINALIZING_FAILED, FAILED], &[NOBODY]) },
    Row {
        cancelled: 1,
        ..row("no-answer-late", &["errs=2"], (1, 0, 1), &[WAITING, FINALIZING_FAILED, FAILED], &[NOBODY])
    },
    row("unknown", &["unknown"], (1, 0, 1), &[FINALIZING_FAILED, FAILED], &[UNKNOWN]),
    row("unsupported", &["unsupported"], (1, 0, 1), &[FINALIZING_FAILED, FAILED], &[UNSUPPORTED]),
    row(
        "an-item-fails-and-another-runs",
        &["refused", "takes=2"],
        (1, 1, 0),
        &[WAITING_FAILED, FINALIZING_FAILED, FAILED],
        &[REFUSED],
    ),
    Row {
        cancelled: 1,
        ..row("timeout", &["never", "takes=1"], (2, 1, 1), &[WAITING, FINALIZING_FAILED, FAILED], &[LATE])
    },
];

const RESTORES: [Row; 12] = [
    row("none", &[], (0, 0, 0), &[COMPLETED], &[]),
    row("at-once", &["takes=1"], (1, 1, 0), &[COMPLETED], &[]),
    row("slow", &["takes=3"], (1, 1, 0), &[WAITING, COMPLETED], &[]),
    row("many", &["takes=2"; 40], (40, 40, 0), &[WAITING, COMPLETED], &[]),
    row("fails-at-once", &["fails=1"], (1, 0, 1), &[FAILED], &[NO_SPACE]),
    row("fails-late", &["fails=2"], (1, 0, 1), &[WAITING, FAILED], &[NO_SPACE]),
    row(
        "fails-while-another-runs",
        &["fails=2", "takes=4"],
        (2, 1, 1),
        &[WAITING, WAITING_FAILED, FAILED],
        &[NO_SPACE],
    ),
    Row { cancelled: 1, ..row("no-answer-at-once", &["errs=1"], (1, 0, 1), &[FAILED], &[NOBODY]) },
    Row { cancelled: 1, ..row("no-answer-late", &["errs=2"], (1, 0, 1), &[WAITING, FAILED], &[NOBODY]) },
    row("unknown", &["unknown"], (1, 0, 1), &[FAILED], &[UNKNOWN]),
    row("an-item-fails-and-another-runs", &["refused", "takes=2"], (1, 1, 0), &[WAITING_FAILED, FAILED], &[REFUSED]),
    Row { cancelled: 1, ..row("timeout", &["never", "takes=1"], (2, 1, 1), &[WAITING, FAILED], &[LATE]) },
];

/// Settings of a server that asks often.
pub(crate) fn hasty(settings: Settings) -> Settings {
    Settings { item_operation_sync_frequency: GoDuration::from_secs(1), concurrent_backups: 8, ..settings }
}

/// Fails unless the results hold exactly the errors that a row expects.
fn assert_errors(row: &Row, results: &ResultsFile, counted: i64) {
    let namespaces = results.errors.namespaces.values().flatten();
    let mut texts: Vec<&String> = namespaces.chain(&results.errors.velero).chain(&results.errors.cluster).collect();
    assert_eq!(texts.len(), row.errors.len(), "{}: {texts:?}", row.name);
    assert_eq!(counted, row.errors.len() as i64, "{}: {texts:?}", row.name);
    for piece in row.errors {
        let place = texts.iter().position(|text| text.contains(piece));
        texts.remove(place.unwrap_or_else(|| panic!("{}: {piece:?} is not in {texts:?}", row.name)));
    }
}

fn assert_phases(row: &Row, seen: &[String]) {
    let expected: Vec<&str> = std::iter::once("InProgress").chain(row.phases.iter().copied()).collect();
    assert_eq!(seen, expected, "{}", row.name);
}

/// What the metrics say of backups or restores that ended as these rows do.
fn counted(kind: &str, failed: &str, rows: &[Row]) -> [String; 4] {
    let counters = [
        ("attempt_total", rows.len()),
        ("success_total", ending(rows, COMPLETED)),
        ("partial_failure_total", ending(rows, FAILED)),
        (failed, 0),
    ];
    counters.map(|(counter, value)| format!("velero_{kind}_{counter}{{schedule=\"\"}} {value}"))
}

fn ending(rows: &[Row], phase: &str) -> usize {
    rows.iter().filter(|row| row.phases.last() == Some(&phase)).count()
}

#[test]
fn every_course_of_the_operations_of_a_backup_ends_as_the_table_says() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let watch = PhaseWatch::start(&cluster, |backup: &Backup| backup.status.phase().to_string());
        join_all(BACKUPS.iter().map(|row| check_backup(row, &server, &watch, &steering, directory.path()))).await;
        server.until_metrics(&counted("backup", "failure_total", &BACKUPS)).await;
        server.stop().await;
    });
}

async fn check_backup(row: &Row, server: &Server, watch: &PhaseWatch, steering: &Steering, directory: &Path) {
    let courses = Courses::new(&server.cluster, BACKUP_ACTION, row.courses).await;
    let spec = BackupSpec { item_operation_timeout: timeout(row), ..courses.spec() };
    let backup = server.backup(row.name, spec).await;
    assert_phases(row, &watch.of(row.name, row.phases.last().unwrap()).await);
    let status = &backup.status;
    let counters = (
        status.backup_item_operations_attempted,
        status.backup_item_operations_completed,
        status.backup_item_operations_failed,
    );
    assert_eq!(counters, row.counters, "{}", row.name);
    let folder = directory.join("backups").join(row.name);
    assert_errors(row, &read(&folder.join(format!("{}-results.gz", row.name))), status.errors);
    assert_eq!(steering.cancelled(row.name).len(), row.cancelled, "{}", row.name);
    let stored: Backup = serde_json::from_slice(&fs::read(folder.join("velero-backup.json")).unwrap()).unwrap();
    assert_eq!(stored.status, backup.status, "{}", row.name);
    let operations: Vec<BackupOperation> = read(&folder.join(format!("{}-itemoperations.json.gz", row.name)));
    assert_eq!(operations.len() as i64, row.counters.0, "{}", row.name);
    let failed = operations.iter().filter(|operation| *operation.status.phase() == OperationPhase::Failed);
    assert_eq!(failed.count() as i64, row.counters.2, "{}", row.name);
    courses.delete().await;
}

#[test]
fn every_course_of_the_operations_of_a_restore_ends_as_the_table_says() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let watch = PhaseWatch::start(&cluster, |restore: &Restore| restore.status.phase().to_string());
        join_all(RESTORES.iter().map(|row| check_restore(row, &server, &watch, &steering, directory.path()))).await;
        server.until_metrics(&counted("restore", "failed_total", &RESTORES)).await;
        server.stop().await;
    });
}

async fn check_restore(row: &Row, server: &Server, watch: &PhaseWatch, steering: &Steering, directory: &Path) {
    let courses = Courses::new(&server.cluster, RESTORE_ACTION, row.courses).await;
    assert_phase(&server.backup(row.name, courses.spec()).await, &BackupPhase::Completed);
    let copy = unique_name("copy");
    let spec = RestoreSpec {
        backup_name: row.name.to_owned(),
        namespace_mapping: [(courses.namespace.clone(), copy.clone())].into(),
        item_operation_timeout: timeout(row),
        ..RestoreSpec::default()
    };
    let restore = server.restore(row.name, spec).await;
    assert_ne!(*restore.status.phase(), RestorePhase::FailedValidation, "{:?}", restore.status);
    assert_phases(row, &watch.of(row.name, row.phases.last().unwrap()).await);
    let status = &restore.status;
    let counters = (
        status.restore_item_operations_attempted,
        status.restore_item_operations_completed,
        status.restore_item_operations_failed,
    );
    assert_eq!(counters, row.counters, "{}", row.name);
    let folder = directory.join("restores").join(row.name);
    assert_errors(row, &read(&folder.join(format!("restore-{}-results.gz", row.name))), status.errors);
    assert_eq!(steering.cancelled(row.name).len(), row.cancelled, "{}", row.name);
    let operations: Vec<RestoreOperation> = read(&folder.join(format!("restore-{}-itemoperations.json.gz", row.name)));
    assert_eq!(operations.len() as i64, row.counters.0, "{}", row.name);
    assert!(status.completion_timestamp.is_some(), "{}", row.name);
    courses.delete().await;
    delete_namespace(&server.cluster, &copy).await;
}

fn timeout(row: &Row) -> GoDuration {
    // Long enough that the run itself has ended by then, also on a busy machine.
    if row.name == "timeout" { GoDuration::from_secs(8) } else { GoDuration::ZERO }
}
