//! Which restores belong together: those that resume each other, directly or through others.

use velero_api::annotations::RESUME_OF;
use velero_api::metadata::{annotation, name, uid};
use velero_api::v1::{Restore, RestorePhase};

/// What is known of a restore to those who look for its relatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// Its name.
    pub name: String,
    /// Its UID; empty when it is gone.
    pub uid: String,
    /// The restore that it resumes; empty when it resumes none.
    pub resume_of: String,
    /// Its phase; `None` when it is gone.
    pub phase: Option<RestorePhase>,
    /// Whether the hooks in its pods have all run well.
    pub has_run_hooks: bool,
}

impl From<&Restore> for Relative {
    fn from(restore: &Restore) -> Self {
        Self {
            name: name(restore).to_owned(),
            uid: uid(restore).to_owned(),
            resume_of: annotation(restore, RESUME_OF).to_owned(),
            phase: Some(restore.status.phase().clone()),
            has_run_hooks: restore.status.hook_status.as_ref().is_some_and(|hooks| hooks.hooks_failed == 0),
        }
    }
}

/// The restores that belong to `resumed`, itself first, without the one called `own`. Those that were resumed and are gone
/// are among them: what they made still carries their names.
pub fn family(resumed: &str, own: &str, all: &[Relative]) -> Vec<Relative> {
    let find = |name: &str| all.iter().find(|relative| relative.name == name);
    let mut names = vec![resumed.to_owned()];
    loop {
        let is_in = |name: &str| names.iter().any(|known| known == name);
        let before = names.iter().filter_map(|name| find(name)).map(|relative| relative.resume_of.as_str());
        let before = before.filter(|name| !name.is_empty());
        let after = all.iter().filter(|relative| is_in(&relative.resume_of)).map(|relative| relative.name.as_str());
        match before.chain(after).find(|name| !is_in(name) && *name != own).map(str::to_owned) {
            Some(name) => names.push(name),
            None => break,
        }
    }
    let gone = |name: &str| Relative {
        name: name.to_owned(),
        uid: String::new(),
        resume_of: String::new(),
        phase: None,
        has_run_hooks: false,
    };
    names.iter().map(|name| find(name).cloned().unwrap_or_else(|| gone(name))).collect()
}
