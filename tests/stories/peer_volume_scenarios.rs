//! The same pods with volumes, saved and restored by both servers: what becomes of each is what the table says.

use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use velero_testkit::progress::say;
use velero_testkit::{BoxKind, Edition, TestBox, TestCluster, harness};
use velero_tests::volume_data;
use velero_tests::volume_scenarios::{Row, Stage, Walk, rows};

const NAME: &str = "volume-rows";
/// A node has room for 110 pods: those of so many rows, what restores make of them, and who moves their data.
const AT_ONCE: usize = 50;
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Says which rows are walked, by parts of their names, such as `policy,moved-`: for those who work on a row.
const SOME_ROWS: &str = "VELERO_TEST_ROWS";
/// Says which edition walks alone, such as `Peer`: the same.
const ONE_EDITION: &str = "VELERO_TEST_EDITION";

/// Rows of every kind, few enough to be walked every time.
const OFTEN: [&str; 20] = [
    "asked-two",
    "asked-not-mounted",
    "asked-pending",
    "asked-shared",
    "asked-ephemeral",
    "asked-unknown",
    "hook-around",
    "hook-fails",
    "group-of-files",
    "of-stateful-set",
    "again-claim-there",
    "again-claims",
    "all-but-claim",
    "all-of-every-kind",
    "all-succeeded",
    "policy-skips-size",
    "policy-copies-claim",
    "policy-snapshots",
    "moved-claim",
    "moved-unbound",
];

/// The rows of the table, or those that whoever works on them wants.
fn wanted() -> Vec<Row> {
    let rows = rows();
    assert!(rows.len() >= 100, "only {} rows", rows.len());
    match std::env::var(SOME_ROWS) {
        Ok(parts) => rows.into_iter().filter(|row| parts.split(',').any(|part| row.name.contains(part))).collect(),
        Err(_) => rows,
    }
}

/// Has one edition walk through the table; gives what is not as the table says.
fn walk(cluster: &TestCluster, stage: &Stage, edition: Edition) -> Vec<String> {
    let prefix = harness::unique_name("rows");
    let server = volume_data::busy_server(&cluster.test_box, edition, &prefix).unwrap();
    let wrong = Walk::through(stage, &server).unwrap();
    server.remove_agents().unwrap();
    server.stop().unwrap();
    wrong
}

/// Has both editions walk through rows in a new box; gives what is not as the table says.
fn both_walk(rows: Vec<Row>) -> Vec<String> {
    let alone = std::env::var(ONE_EDITION).ok();
    let walks = |edition: &Edition| alone.as_ref().is_none_or(|name| *name == format!("{edition:?}"));
    let editions: Vec<Edition> = [Edition::Peer, Edition::Ours].into_iter().filter(walks).collect();
    let name = alone.as_ref().map_or(NAME.to_owned(), |edition| format!("{NAME}-{}", edition.to_lowercase()));
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (sender, wrong) = channel();
    TestBox::down(&name).unwrap();
    harness::run(&name, BoxKind::Storage, async move |cluster| {
        let stage = Stage::set(&cluster, rows).await.unwrap();
        say("all pods have their data");
        let wrong: Vec<String> = editions.iter().flat_map(|edition| walk(&cluster, &stage, *edition)).collect();
        sender.send(wrong).unwrap();
    });
    TestBox::down(&name).unwrap();
    wrong.recv().unwrap()
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn volumes_of_every_kind_are_saved_and_come_back_as_the_table_says() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| OFTEN.contains(&row.name)).collect();
    assert_eq!(rows.len(), OFTEN.len());
    assert_none(&both_walk(rows));
}

#[test]
#[ignore = "both servers take more than ten minutes for all rows; begun with --thorough"]
fn every_volume_is_saved_and_comes_back_as_the_table_says() {
    let (mut rows, mut wrong) = (wanted(), Vec::new());
    while !rows.is_empty() {
        let rest = rows.split_off(rows.len().min(AT_ONCE));
        wrong.extend(both_walk(rows));
        rows = rest;
    }
    assert_none(&wrong);
}
