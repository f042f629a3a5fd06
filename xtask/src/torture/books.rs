//! What was asked for, so that it can be said what has to be there.

use std::collections::{BTreeMap, BTreeSet};

/// A backup that was asked for.
#[derive(Clone, Debug)]
pub(super) struct AskedBackup {
    /// Its source, by its place in the list.
    pub(super) source: usize,
    /// Whether the API server has answered that it is there.
    pub(super) is_sure: bool,
    /// Whether its deletion was asked for.
    pub(super) is_to_go: bool,
    /// Whether it stays to the end, so that there is always one to restore.
    pub(super) is_base: bool,
}

impl AskedBackup {
    /// A backup that is there and may go some day.
    pub(super) fn there(source: usize) -> Self {
        Self { source, is_sure: true, is_to_go: false, is_base: false }
    }
}

/// A restore that was asked for.
#[derive(Clone, Debug)]
pub(super) struct AskedRestore {
    pub(super) backup: String,
    pub(super) source: usize,
    /// The namespace it restores to.
    pub(super) target: String,
    pub(super) is_sure: bool,
    pub(super) is_to_go: bool,
}

/// All that was asked for and has not gone.
#[derive(Default)]
pub(super) struct Books {
    count: usize,
    pub(super) backups: BTreeMap<String, AskedBackup>,
    pub(super) restores: BTreeMap<String, AskedRestore>,
    /// What was looked into already and found whole.
    pub(super) whole: BTreeSet<String>,
}

impl Books {
    /// A name that nothing else has.
    pub(super) fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}-{}", self.count)
    }

    /// Strikes out what was to go and has gone; `backups` and `restores` are those that are there.
    pub(super) fn forget(&mut self, backups: &BTreeSet<String>, restores: &BTreeSet<String>) {
        // The restores of a backup go with it.
        let gone: BTreeSet<String> =
            self.backups.iter().filter(|(_, asked)| asked.is_to_go).map(|(name, _)| name.clone()).collect();
        let may_go = |asked: &AskedRestore| asked.is_to_go || !asked.is_sure || gone.contains(&asked.backup);
        self.restores.retain(|name, asked| restores.contains(name) || !may_go(asked));
        self.backups.retain(|name, asked| backups.contains(name) || (asked.is_sure && !asked.is_to_go));
        self.whole.retain(|name| backups.contains(name) || restores.contains(name));
    }
}
