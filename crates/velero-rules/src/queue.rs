//! Which waiting backups may start.
//!
//! A backup waits while too many run, and while it shares a namespace with one that runs or waits ahead of it.

use std::collections::BTreeSet;

/// Where a backup stands in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It waits; the smallest position is next.
    Queued {
        /// Its position.
        position: i64,
    },
    /// Its turn has come and it has no place: it is ReadyToStart and comes before all who wait.
    Ready,
    /// It runs or is about to: InProgress, or ReadyToStart with a place.
    Running,
}

/// A backup that runs or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// The name of the backup.
    pub name: String,
    /// Where it stands.
    pub state: QueueState,
    /// The namespaces it takes, patterns resolved.
    pub namespaces: BTreeSet<String>,
}

/// What to change in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuePlan {
    /// The backups that are ready and may begin, in this order.
    pub begin: Vec<String>,
    /// The backups that become ReadyToStart, in this order.
    pub start: Vec<String>,
    /// The new positions of those that go on waiting, as far as they change.
    pub renumber: Vec<(String, i64)>,
}

impl QueueEntry {
    fn position(&self) -> Option<i64> {
        match self.state {
            QueueState::Queued { position } => Some(position),
            QueueState::Ready | QueueState::Running => None,
        }
    }
}

/// Gives the position of a backup that joins the queue.
pub fn next_position(entries: &[QueueEntry]) -> i64 {
    entries.iter().filter_map(QueueEntry::position).max().unwrap_or(0) + 1
}

/// Decides which backups may start when at most `limit` may run. A limit below one counts as one.
pub fn plan(entries: &[QueueEntry], limit: usize) -> QueuePlan {
    let (running, mut waiting): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.state == QueueState::Running);
    // Those that are ready have no position, which comes before all positions.
    waiting.sort_by_key(|entry| entry.position());
    let mut free_slots = limit.max(1).saturating_sub(running.len());
    let mut taken: BTreeSet<&String> = running.iter().flat_map(|entry| &entry.namespaces).collect();

    let mut plan = QueuePlan::default();
    let mut remaining = Vec::new();
    for entry in waiting {
        let conflicts = entry.namespaces.iter().any(|namespace| taken.contains(namespace));
        taken.extend(&entry.namespaces);
        if conflicts || free_slots == 0 {
            remaining.push(entry);
        } else {
            free_slots -= 1;
            let next = if entry.state == QueueState::Ready { &mut plan.begin } else { &mut plan.start };
            next.push(entry.name.clone());
        }
    }
    if !plan.start.is_empty() {
        let numbered = remaining.into_iter().filter(|entry| entry.position().is_some()).zip(1..);
        let moved = numbered.filter(|(entry, position)| entry.position() != Some(*position));
        plan.renumber = moved.map(|(entry, position)| (entry.name.clone(), position)).collect();
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, state: QueueState, namespaces: &[&str]) -> QueueEntry {
        QueueEntry { name: name.into(), state, namespaces: namespaces.iter().map(|&name| name.to_owned()).collect() }
    }

    fn queued(name: &str, position: i64, namespaces: &[&str]) -> QueueEntry {
        entry(name, QueueState::Queued { position }, namespaces)
    }

    fn running(name: &str, namespaces: &[&str]) -> QueueEntry {
        entry(name, QueueState::Running, namespaces)
    }

    fn ready(name: &str, namespaces: &[&str]) -> QueueEntry {
        entry(name, QueueState::Ready, namespaces)
    }

    #[test]
    fn backups_start_as_the_table_says() {
        type Row<'a> = (Vec<QueueEntry>, usize, &'a [&'a str], &'a [(&'a str, i64)]);
        let table: Vec<Row<'_>> = vec![
            (vec![], 1, &[], &[]),
            (vec![queued("a", 1, &["x"])], 1, &["a"], &[]),
            (vec![queued("a", 1, &["x"])], 0, &["a"], &[]),
            (vec![running("r", &["x"]), queued("a", 1, &["y"])], 1, &[], &[]),
            (vec![running("r", &["x"]), queued("a", 1, &["y"])], 2, &["a"], &[]),
            (vec![running("r", &["x"]), queued("a", 1, &["x", "y"])], 2, &[], &[]),
            (vec![queued("b", 2, &["x"]), queued("a", 1, &["x"])], 2, &["a"], &[("b", 1)]),
            (vec![queued("a", 1, &["x"]), queued("b", 2, &["y"])], 2, &["a", "b"], &[]),
            (
                vec![queued("a", 3, &["x"]), queued("b", 7, &["y"]), queued("c", 9, &["z"])],
                1,
                &["a"],
                &[("b", 1), ("c", 2)],
            ),
            (
                vec![running("r", &["x"]), queued("a", 1, &["x", "y"]), queued("b", 2, &["y"]), queued("c", 3, &["z"])],
                3,
                &["c"],
                &[],
            ),
            (vec![queued("a", 1, &[]), queued("b", 2, &[])], 2, &["a", "b"], &[]),
        ];
        for (entries, limit, start, renumber) in table {
            let plan = plan(&entries, limit);
            let moved: Vec<_> = plan.renumber.iter().map(|(name, position)| (name.as_str(), *position)).collect();
            assert_eq!(
                (&plan.start[..], &moved[..]),
                (&start.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..], renumber),
                "{entries:?}"
            );
        }
    }

    #[test]
    fn a_backup_that_is_ready_and_has_no_place_comes_before_all_who_wait() {
        type Row<'a> = (Vec<QueueEntry>, usize, &'a [&'a str], &'a [&'a str], &'a [(&'a str, i64)]);
        let table: Vec<Row<'_>> = vec![
            (vec![ready("r", &["x"])], 1, &["r"], &[], &[]),
            (vec![queued("a", 1, &["y"]), ready("r", &["x"])], 1, &["r"], &[], &[]),
            (vec![queued("a", 1, &["y"]), ready("r", &["x"])], 2, &["r"], &["a"], &[]),
            (vec![queued("a", 1, &["x"]), ready("r", &["x"])], 2, &["r"], &[], &[]),
            (vec![ready("q", &["x"]), ready("r", &["y"])], 1, &["q"], &[], &[]),
            (vec![running("b", &["y"]), ready("r", &["x"])], 1, &[], &[], &[]),
            (
                vec![running("b", &["x"]), ready("r", &["x"]), queued("a", 1, &["y"]), queued("c", 2, &["x"])],
                2,
                &[],
                &["a"],
                &[("c", 1)],
            ),
        ];
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (entries, limit, begin, start, renumber) in table {
            let renumber = renumber.iter().map(|(name, position)| ((*name).to_owned(), *position)).collect();
            let expected = QueuePlan { begin: owned(begin), start: owned(start), renumber };
            assert_eq!(plan(&entries, limit), expected, "{entries:?}");
        }
    }

    #[test]
    fn a_new_backup_joins_at_the_end() {
        assert_eq!(next_position(&[]), 1);
        assert_eq!(next_position(&[running("r", &[]), queued("a", 4, &[]), queued("b", 2, &[])]), 5);
    }
}
