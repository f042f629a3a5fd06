use std::collections::BTreeMap;

use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;
use velero_engine::{detail, stage};

use super::*;

const UID: &str = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";

/// The spans that a piece of work makes, with room in the queue for so many; and how many were lost and left out.
fn counted(room: usize, work: impl FnOnce()) -> (Vec<Span>, u64, u64) {
    let (sender, mut receiver) = mpsc::channel(room);
    let counts: &'static Counts = Box::leak(Box::new(Counts::new()));
    let filter = crate::runtime::logging::filter(Level::ERROR, true);
    let subscriber = tracing_subscriber::registry().with(filter).with(TraceLayer::new(sender, counts));
    tracing::subscriber::with_default(subscriber, work);
    let made = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
    (made, counts.of(Fate::Lost), counts.of(Fate::LeftOut))
}

fn spans(room: usize, work: impl FnOnce()) -> Vec<Span> {
    counted(room, work).0
}

/// Each span by its name, with the name of the one around it.
fn tree(spans: &[Span]) -> BTreeMap<&str, &str> {
    let name = |id: &[u8]| spans.iter().find(|span| span.span_id == id).map_or("", |span| span.name.as_str());
    spans.iter().map(|span| (span.name.as_str(), name(&span.parent_span_id))).collect()
}

fn end_of_backup() {
    let _whole = tracing::info_span!(
        target: stage::TARGET, "root",
        trace.root = UID, trace.name = "backup", trace.started = 5_u64, trace.failed = true, velero.phase = "Failed",
    );
}

#[test]
fn stages_of_an_object_make_one_tree_whoever_did_them() {
    let made = spans(100, || {
        stage::of_object(UID).in_scope(|| {
            let items = stage!("items", velero.items = tracing::field::Empty);
            items.in_scope(|| drop(detail!("volume", velero.volume = "data")));
            items.record("velero.items", 3);
        });
        // Another server, later.
        stage::of_object(UID).in_scope(|| drop(stage!("finalize")));
        end_of_backup();
        // Of nobody, and of others.
        drop(stage!("lonely"));
        tracing::error_span!("reconcile").in_scope(|| tracing::error!("said"));
    });
    let expected = [("backup", ""), ("finalize", "backup"), ("items", "backup"), ("volume", "items")];
    assert_eq!(tree(&made), expected.into());
    assert!(made.iter().all(|span| span.trace_id == Whole::of(UID).unwrap().trace));
    assert!(made.iter().all(|span| span.end_time_unix_nano >= span.start_time_unix_nano));
    let attributes = |name: &str| made.iter().find(|span| span.name == name).unwrap().attributes.clone();
    assert_eq!(attributes("items"), [KeyValue::new("velero.items", Value::Whole(3))]);
    assert_eq!(attributes("volume"), [KeyValue::new("velero.volume", Value::Text("data".to_owned()))]);
    let whole = made.iter().find(|span| span.name == "backup").unwrap();
    assert_eq!(whole.start_time_unix_nano, 5);
    assert_eq!(whole.status, Some(Status { code: StatusCode::Error.into() }));
}

#[test]
fn a_stage_ends_with_its_work_and_not_with_what_that_set_going() {
    let made = spans(100, || {
        stage::of_object(UID).in_scope(|| {
            let type_stage = stage!("type");
            let left = type_stage.in_scope(|| detail!("hooks"));
            type_stage.record("trace.ended", 7_u64);
            drop(type_stage);
            drop(left);
        });
    });
    let stage = made.iter().find(|span| span.name == "type").unwrap();
    assert_eq!(stage.end_time_unix_nano, stage.start_time_unix_nano, "never before it began");
}

#[test]
fn many_parts_make_a_thousand_spans_and_stages_come_all_the_same() {
    let (made, lost, left_out) = counted(10_000, || {
        stage::of_object(UID).in_scope(|| {
            stage!("items").in_scope(|| (0..100_000).for_each(|_| drop(detail!("hook"))));
            drop(stage!("files"));
        });
    });
    assert_eq!((made.len(), lost, left_out), (MOST_DETAILS + 2, 0, 99_000));
}

#[test]
fn a_full_queue_loses_spans_and_keeps_nobody_waiting() {
    let (made, lost, _) = counted(2, || stage::of_object(UID).in_scope(|| (0..5).for_each(|_| drop(stage!("files")))));
    assert_eq!((made.len(), lost), (2, 3));
}

#[test]
fn a_text_is_never_longer_than_a_name() {
    let long = "é".repeat(1000);
    let made = spans(10, || stage::of_object(UID).in_scope(|| drop(detail!("hook", velero.hook = long.as_str()))));
    let Some(Value::Text(text)) = made[0].attributes[0].value.clone().and_then(|value| value.value) else { panic!() };
    assert_eq!(text.len(), LONGEST_TEXT);
}
