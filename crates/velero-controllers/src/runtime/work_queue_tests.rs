//! What is due when.

use std::time::Duration;

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn object(name: &str) -> Option<Due> {
    Some(Due::Object(name.into()))
}

fn gone(name: &str) -> Option<Due> {
    Some(Due::Gone(name.into()))
}

fn list(queue: &mut WorkQueue, names: &[&str], now: Instant) {
    queue.begin_list();
    names.iter().for_each(|name| queue.listed(name));
    queue.end_list(now);
}

/// A queue that has begun and knows some objects, all of which were looked at.
fn looked_at(names: &[&str], now: Instant) -> WorkQueue {
    let mut queue = WorkQueue::default();
    queue.begin();
    list(&mut queue, names, now);
    queue.settle(std::iter::empty(), now);
    while let Some(due) = queue.take(now) {
        match due {
            Due::Object(name) => queue.give_back(&name, None),
            Due::Gone(name) => panic!("{name} is gone"),
        }
    }
    queue
}

#[test]
fn an_object_is_in_one_hand_and_due_again_when_it_changes_meanwhile() {
    let now = Instant::now();
    let mut queue = looked_at(&["a", "b"], now);
    assert_eq!(queue.next_due(), None);
    queue.changed("a", now);
    queue.changed("a", now);
    assert_eq!(queue.take(now), object("a"));
    assert_eq!(queue.take(now), None, "once");
    queue.changed("a", now + seconds(1));
    assert_eq!(queue.take(now + seconds(1)), None, "somebody has it");
    queue.give_back(&"a".into(), Some(now + seconds(60)));
    assert_eq!(queue.take(now + seconds(1)), object("a"));
    queue.give_back(&"a".into(), Some(now + seconds(60)));
    assert_eq!(queue.next_due(), Some(now + seconds(60)));
}

#[test]
fn the_sooner_moment_counts_and_what_is_due_first_comes_first() {
    let now = Instant::now();
    let mut queue = looked_at(&["a", "b"], now);
    for (name, pause) in [("a", 20), ("b", 10)] {
        queue.woken(name, now);
        assert_eq!(queue.take(now), object(name));
        queue.give_back(&name.into(), Some(now + seconds(pause)));
    }
    assert_eq!(queue.take(now + seconds(9)), None);
    queue.woken("a", now + seconds(5));
    assert_eq!(queue.take(now + seconds(10)), object("a"));
    assert_eq!(queue.take(now + seconds(10)), object("b"));
    queue.give_back(&"a".into(), None);
    assert_eq!(queue.next_due(), None, "the later moment is forgotten with the sooner one");
}

#[test]
fn who_looks_at_an_object_that_goes_is_told_afterwards_and_only_if_it_does_not_come_back() {
    let now = Instant::now();
    let mut queue = looked_at(&["a"], now);
    queue.gone("a", now);
    assert_eq!(queue.take(now), gone("a"));
    queue.changed("a", now);
    assert_eq!(queue.take(now), object("a"));
    queue.gone("a", now);
    assert_eq!(queue.take(now), None);
    queue.give_back(&"a".into(), Some(now + seconds(1)));
    queue.changed("a", now);
    assert_eq!(queue.take(now), object("a"));
    queue.gone("a", now);
    queue.give_back(&"a".into(), None);
    assert_eq!(queue.take(now), gone("a"));
    assert!(queue.objects.is_empty() && queue.due.is_empty());
    queue.woken("never-there", now);
    assert_eq!(queue.take(now), gone("never-there"));
}

#[test]
fn what_a_later_list_does_not_name_is_gone() {
    let now = Instant::now();
    let mut queue = looked_at(&["a", "b"], now);
    list(&mut queue, &["b", "c"], now);
    assert_eq!(queue.take(now), gone("a"));
    assert_eq!(queue.take(now), None, "what follows for the others is not settled");
    queue.settle(std::iter::empty(), now);
    assert_eq!((queue.take(now), queue.take(now), queue.take(now)), (object("b"), object("c"), None));
}

#[test]
fn nothing_is_due_before_it_has_begun_and_a_list_is_complete() {
    let now = Instant::now();
    let mut queue = WorkQueue::default();
    queue.woken("a", now);
    queue.begin_list();
    queue.listed("a");
    queue.listed("b");
    queue.begin();
    assert_eq!((queue.next_due(), queue.is_to_be_settled()), (None, false), "the list is not complete");
    queue.end_list(now);
    assert!(queue.is_to_be_settled());
    assert_eq!(queue.take(now), object("a"), "it was woken, so a list need not say more");
}

#[test]
fn who_waits_to_begin_knows_what_is_there_then_and_tells_nobody_of_the_rest() {
    let now = Instant::now();
    let mut queue = WorkQueue::default();
    list(&mut queue, &["a", "b", "c"], now);
    queue.changed("b", now);
    queue.gone("a", now);
    list(&mut queue, &["b", "d"], now);
    assert!(!queue.is_to_be_settled());
    queue.begin();
    assert!(queue.is_to_be_settled());
    queue.settle(std::iter::empty(), now);
    assert_eq!((queue.take(now), queue.take(now), queue.take(now)), (object("b"), object("d"), None));
}

#[test]
fn what_rests_is_not_looked_at_before_its_time_unless_it_changed_since_the_list() {
    let now = Instant::now();
    let mut queue = WorkQueue::default();
    queue.begin();
    list(&mut queue, &["changed", "resting", "waiting", "working"], now);
    queue.changed("changed", now);
    let resting = [("changed", Some(60)), ("resting", None), ("waiting", Some(10)), ("unknown", None)];
    let resting = resting.map(|(name, pause)| (name.to_owned(), pause.map(|pause| now + seconds(pause))));
    queue.settle(resting.into_iter(), now);
    assert_eq!((queue.take(now), queue.take(now), queue.take(now)), (object("changed"), object("working"), None));
    assert_eq!(queue.next_due(), Some(now + seconds(10)));
    assert_eq!(queue.objects.len(), 4);
}

#[test]
fn little_is_kept_of_an_object_that_rests() {
    let kept = size_of::<(Arc<str>, Entry)>() + size_of::<(Instant, Arc<str>)>();
    assert!(kept <= 80, "{kept} bytes besides the name: a server knows tens of thousands of objects");
    let mut queue = looked_at(&["a"], Instant::now());
    queue.changed("a", Instant::now());
    let (name, _) = queue.objects.get_key_value("a").unwrap();
    let (_, due) = queue.due.first().unwrap();
    assert!(Arc::ptr_eq(name, due), "the name is there once");
}
