//! Whole maintenances, with a clock that is moved and a store that dies.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::*;
use crate::store::BlobStore as _;
use crate::testing::bench::{Bench, HOUR};
use crate::verify::{VerifyOptions, verify_repository};

const DAY: i64 = 24 * HOUR;

fn full(bench: &Bench) -> Result<MaintenanceReport> {
    let options = MaintenanceOptions { mode: Some(Mode::Full), ..MaintenanceOptions::default() };
    maintain(&bench.open(), &options, &bench.clock)
}

fn expect(bench: &Bench, id: &str, files: &[(&str, &str)]) {
    let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    assert_eq!(bench.read(id).unwrap(), files);
}

fn assert_good(bench: &Bench) {
    let report = verify_repository(bench.store.clone(), bench.format.clone(), &VerifyOptions::default()).unwrap();
    assert!(report.is_good(), "{:?}", report.problems);
}

const KEPT: &[(&str, &str)] = &[("a", "kept"), ("b", "shared")];
const FORGOTTEN: &[(&str, &str)] = &[("b", "shared"), ("c", "forgotten")];

/// Two snapshots, one of them forgotten two days ago, and the pack of a writer that died.
fn with_garbage() -> (Bench, String) {
    let bench = Bench::new();
    let kept = bench.save(KEPT);
    let forgotten = bench.save(FORGOTTEN);
    bench.forget(&forgotten);
    let garbage = crate::pack::PackBuilder::new('p', "s0123456789abcdef147").finish(&bench.format.sealer).unwrap();
    bench.store.put(&garbage.name, garbage.bytes.into()).unwrap();
    bench.pass(2 * DAY);
    (bench, kept)
}

#[test]
fn a_forgotten_snapshot_is_gone_after_two_cycles_and_what_others_need_stays() {
    let (bench, kept) = with_garbage();
    let first = full(&bench).unwrap();
    let collect = first.collect.unwrap();
    assert_eq!((collect.deleted_content_count, collect.in_use_content_count), (2, 3), "a file and a directory go");
    assert_eq!(first.drop, None, "one collection is not enough");
    assert!(first.rewrite.unwrap().rewritten_content_count > 3);
    assert_eq!(first.packs, None, "contents moved just now");
    expect(&bench, &kept, KEPT);
    bench.pass(DAY + HOUR);
    let second = full(&bench).unwrap();
    assert_eq!(second.rewrite, None, "no packs went since");
    assert!(second.drop.is_some() && second.packs.unwrap().deleted_pack_count > 2, "{second:?}");
    bench.pass(DAY + HOUR);
    let third = full(&bench).unwrap();
    let dropped = |report: &MaintenanceReport| report.drop.map(|stats| stats.dropped_contents_deleted_before);
    assert!(dropped(&third) > dropped(&second));
    let index = bench.open().index();
    assert!(!index.index.entries().any(|entry| {
        let entry = entry.unwrap();
        entry.deleted && entry.id.prefix().is_none()
    }));
    expect(&bench, &kept, KEPT);
    assert_good(&bench);
    assert!(!bench.blobs("p").iter().any(|name| name.contains("s0123456789abcdef147")), "garbage");
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_the_next_run_does() {
    let (bench, _) = with_garbage();
    full(&bench).unwrap();
    bench.pass(DAY + HOUR);
    let run = |dry_run| {
        let told = RefCell::new(Vec::new());
        let tell = |action: &Action<'_>| told.borrow_mut().push(format!("{action:?}"));
        let options = MaintenanceOptions { mode: Some(Mode::Full), dry_run, tell: &tell, ..Default::default() };
        maintain(&bench.open(), &options, &bench.clock).unwrap();
        told.into_inner()
    };
    let before = crate::store::list_all(bench.store.as_ref(), "").unwrap();
    let would = run(true);
    assert_eq!(crate::store::list_all(bench.store.as_ref(), "").unwrap(), before);
    assert!(would.iter().any(|action| action.contains("no index names it")), "{would:?}");
    assert_eq!(run(false), would);
}

#[test]
fn contents_that_a_new_snapshot_needs_are_brought_back() {
    let (bench, _) = with_garbage();
    full(&bench).unwrap();
    // A writer that looked at the index before the collection keeps what it knew.
    let repository = bench.open();
    let writer = crate::writer::ContentWriter::new(&repository, bench.clock.clone()).unwrap();
    let content = crate::ContentId::data(bench.format.sealer.hash(b"forgotten"));
    assert!(repository.find(content).unwrap().unwrap().deleted);
    let entry =
        crate::testing::bench::entry("c", crate::directory::EntryKind::File, 9, crate::ObjectId::direct(content));
    let id = crate::testing::bench::save_entries(&writer, &[entry]);
    writer.flush().unwrap();
    for _ in 0..4 {
        bench.pass(DAY + HOUR);
        full(&bench).unwrap();
        expect(&bench, &id, &[("c", "forgotten")]);
        assert!(!bench.open().find(content).unwrap().unwrap().deleted);
    }
    assert_good(&bench);
}

#[test]
fn a_snapshot_that_cannot_be_walked_ends_the_collection_and_nothing_is_deleted() {
    let (bench, kept) = with_garbage();
    let repository = bench.open();
    let writer = crate::writer::ContentWriter::new(&repository, bench.clock.clone()).unwrap();
    let missing = crate::ObjectId::direct(crate::ContentId::data([9; 16]));
    let entry = crate::testing::bench::entry("gone", crate::directory::EntryKind::File, 9, missing);
    let broken = crate::testing::bench::save_entries(&writer, &[entry]);
    writer.flush().unwrap();
    let before = bench.blobs("p");
    let error = full(&bench).unwrap_err().to_string();
    assert!(error.contains(&broken) && error.contains("/gone") && error.contains("in no index"), "{error}");
    expect(&bench, &kept, KEPT);
    assert_eq!(bench.blobs("p"), before);
    let schedule = Schedule::load(bench.store.as_ref(), &bench.format).unwrap();
    assert!(!schedule.runs[COLLECT][0].success && !schedule.runs[COLLECT][0].error.is_empty());
}

#[test]
fn who_is_not_the_owner_or_has_another_time_or_comes_second_does_nothing() {
    let (bench, _) = with_garbage();
    let options = MaintenanceOptions { owner: "me@here".to_owned(), ..MaintenanceOptions::default() };
    let before = bench.blobs("");
    assert!(matches!(maintain(&bench.open(), &options, &bench.clock), Err(Error::NotOwner { .. })));
    assert_eq!(bench.blobs(""), before);
    bench.store.ahead.store(301, Ordering::SeqCst);
    assert!(matches!(full(&bench), Err(Error::ClockSkew { .. })));
    bench.store.ahead.store(0, Ordering::SeqCst);
    let again = full(&bench).unwrap();
    assert!(matches!(again.skipped, Some(Skipped::BegunByOthers(_))), "the one that was refused has set the times");
    bench.pass(DAY);
    let auto = MaintenanceOptions::default();
    let report = maintain(&bench.open(), &auto, &bench.clock).unwrap();
    assert_eq!((report.mode, report.skipped), (Some(Mode::Full), None));
    let report = maintain(&bench.open(), &auto, &bench.clock).unwrap();
    assert_eq!((report.mode, report.skipped), (None, Some(Skipped::NotDue)));
    bench.pass(HOUR);
    assert_eq!(maintain(&bench.open(), &auto, &bench.clock).unwrap().mode, Some(Mode::Quick));
}

#[test]
fn a_maintenance_ends_when_somebody_else_begins_one() {
    let (bench, kept) = with_garbage();
    let tell = |action: &Action<'_>| {
        if matches!(action, Action::DeleteContent { .. }) {
            let mut schedule = Schedule::load(bench.store.as_ref(), &bench.format).unwrap();
            schedule.next_quick = bench.clock.as_ref()() + jiff::SignedDuration::from_secs(77);
            schedule.store(bench.store.as_ref(), &bench.format).unwrap();
        }
    };
    let options = MaintenanceOptions { mode: Some(Mode::Full), tell: &tell, ..MaintenanceOptions::default() };
    assert!(matches!(maintain(&bench.open(), &options, &bench.clock), Err(Error::MaintainedElsewhere)));
    expect(&bench, &kept, KEPT);
}

#[test]
fn epochs_end_are_compacted_and_become_ranges_and_everything_stays_readable() {
    let mut bench = Bench::new();
    bench.format.parameters.epoch_parameters.epoch_advance_on_count_threshold = 2;
    let mut saved = Vec::new();
    for day in 0..24 {
        let text = format!("day {day}");
        saved.push((bench.save(&[("file", &text)]), text));
        bench.pass(DAY + HOUR);
        full(&bench).unwrap();
    }
    let state = crate::repository::list_epochs(bench.store.as_ref()).unwrap();
    assert!(state.write_epoch >= 9, "{}", state.write_epoch);
    assert!(!state.ranges.is_empty() && !state.compacted.is_empty(), "{state:?}");
    assert!(!state.uncompacted.contains_key(&0), "compacted long ago");
    assert!(state.markers.len() <= 3 && state.watermarks.len() <= 3, "{:?}", state.markers);
    for (id, text) in &saved {
        expect(&bench, id, &[("file", text)]);
    }
    assert_good(&bench);
}

#[test]
fn a_store_that_dies_at_any_change_leaves_a_valid_repository_and_the_next_run_goes_on() {
    let (bench, kept) = with_garbage();
    full(&bench).unwrap();
    bench.pass(DAY + HOUR);
    let late = bench.save(&[("d", "late")]);
    let whole = bench.copy(i64::MAX, false);
    full(&whole).unwrap();
    let changes = i64::MAX - whole.store.changes_left.load(Ordering::SeqCst);
    assert!(changes > 15, "{changes}");
    for number in 0..changes {
        let dying = bench.copy(number, number % 2 == 1);
        // Some deaths hit a marker whose removal may fail.
        let _ = full(&dying);
        dying.store.changes_left.store(i64::MAX, Ordering::SeqCst);
        expect(&dying, &kept, KEPT);
        expect(&dying, &late, &[("d", "late")]);
        assert_good(&dying);
        dying.pass(DAY + HOUR);
        full(&dying).unwrap();
        expect(&dying, &kept, KEPT);
        expect(&dying, &late, &[("d", "late")]);
        assert_good(&dying);
    }
}
