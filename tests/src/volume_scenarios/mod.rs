//! Pods with volumes of every kind, and what a backup and a restore make of them: a table that both editions walk through.
//!
//! A row has a namespace of its own. Rows with the same kind of backup share one backup, rows that are restored alike one
//! restore; what became of a row is read by its namespace. It is told in lines, such as `copy web/data Completed`.

mod afterwards;
mod kinds;
mod movement;
mod opt_in;
mod opt_out;
mod outcome;
mod owned;
mod pods;
mod policies;
mod restored;
mod stage;
mod unusual;
mod walk;
mod ways;

use serde_json::Value;
use velero_testkit::Edition;

pub use outcome::Lines;
pub use stage::Stage;
pub use walk::Walk;
pub use ways::{Again, Way};

/// One row of the table.
pub struct Row {
    /// What it is about, and its namespace.
    pub name: &'static str,
    /// The backup it is part of.
    pub way: Way,
    objects: Vec<Value>,
    /// Pods that only fill claims: they are gone before the backup.
    fillers: Vec<&'static str>,
    /// Claims that are deleted before the backup, and stay as long as pods use them.
    going: Vec<&'static str>,
    /// What messages about it say where the original does not name the namespace.
    words: Vec<&'static str>,
    restore: Option<Restoring>,
    expected: Lines,
    ours: Option<Difference>,
}

struct Restoring {
    how: Again,
    /// What is in the namespace before.
    there: Vec<Value>,
    /// Claims without a pod that are looked into after.
    read: Vec<&'static str>,
}

/// Where ours does something else on purpose.
struct Difference {
    lines: Lines,
    reason: &'static str,
}

impl Row {
    fn new(name: &'static str, way: Way, objects: Vec<Value>) -> Self {
        let none = Vec::new;
        let (fillers, going, words) = (none(), none(), none());
        Self { name, way, objects, fillers, going, words, restore: None, expected: Lines::new(), ours: None }
    }

    /// These pods fill claims and are gone before the backup.
    fn without(mut self, fillers: &[&'static str]) -> Self {
        self.fillers = fillers.to_vec();
        self
    }

    /// These claims are deleted before the backup; the pods that use them keep them.
    fn deleting(mut self, claims: &[&'static str]) -> Self {
        self.going = claims.to_vec();
        self
    }

    /// Messages with these words are about this row, whether they name its namespace or not.
    fn known_by(mut self, words: &[&'static str]) -> Self {
        self.words = words.to_vec();
        self
    }

    /// It is restored as well.
    fn restored(mut self, how: Again) -> Self {
        self.restore = Some(Restoring { how, there: Vec::new(), read: Vec::new() });
        self
    }

    /// These objects are there before the restore.
    fn over(mut self, objects: &[Value]) -> Self {
        self.restore.iter_mut().for_each(|restore| restore.there = objects.to_vec());
        self
    }

    /// These claims are looked into after the restore.
    fn reading(mut self, claims: &[&'static str]) -> Self {
        self.restore.iter_mut().for_each(|restore| restore.read = claims.to_vec());
        self
    }

    /// What must come of it, with either edition.
    fn gives(mut self, lines: &[&str]) -> Self {
        self.expected = lines.iter().map(|line| (*line).to_owned()).collect();
        self
    }

    /// What comes of it with ours instead, and why that is better.
    fn but_ours(mut self, reason: &'static str, lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        self.ours = Some(Difference { lines, reason });
        self
    }

    /// Why ours does something else here, if it does.
    pub fn difference(&self) -> Option<&'static str> {
        self.ours.as_ref().map(|difference| difference.reason)
    }

    /// What must come of it with an edition.
    fn expected_of(&self, edition: Edition) -> &Lines {
        match &self.ours {
            Some(difference) if edition != Edition::Peer => &difference.lines,
            _ => &self.expected,
        }
    }

    /// Its pods, with those that controllers make for it.
    fn pods(&self) -> Vec<Value> {
        self.objects.iter().filter_map(owned::pod_of).collect()
    }
}

/// The table.
pub fn rows() -> Vec<Row> {
    let tables = [
        opt_in::rows(),
        kinds::rows(),
        unusual::rows(),
        owned::rows(),
        opt_out::rows(),
        policies::rows(),
        movement::rows(),
        restored::rows(),
    ];
    tables.into_iter().flatten().collect()
}
