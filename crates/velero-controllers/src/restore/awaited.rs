//! What a restore still waits for when its own work is done, noted on it so that the next server knows too.

use velero_api::annotations::AWAITED;
use velero_api::v1::Restore;
use velero_engine::restore::RunningHooks;

const HOOKS: &str = "hooks";
const VOLUMES: &str = "volumes";

/// What goes on after the last object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Hooks in restored pods.
    pub(crate) hooks: bool,
    /// New volumes that get the labels and the reclaim policy of the old ones.
    pub(crate) volumes: bool,
}

impl Awaited {
    pub(crate) fn of(running: &RunningHooks) -> Self {
        Self { hooks: running.has_hooks(), volumes: running.has_volumes() }
    }

    /// What is noted on a restore; `None` when nothing is.
    pub(crate) fn noted(restore: &Restore) -> Option<Self> {
        let noted = restore.metadata.annotations.as_ref()?.get(AWAITED)?;
        let awaits = |what| noted.split(',').any(|part| part == what);
        Some(Self { hooks: awaits(HOOKS), volumes: awaits(VOLUMES) })
    }

    /// Whether nothing goes on.
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Notes it on a restore; nothing takes the note away.
    pub(crate) fn note(self, restore: &mut Restore) {
        let parts = [(self.hooks, HOOKS), (self.volumes, VOLUMES)];
        let parts: Vec<&str> = parts.into_iter().filter(|(awaits, _)| *awaits).map(|(_, part)| part).collect();
        if !parts.is_empty() {
            restore.metadata.annotations.get_or_insert_default().insert(AWAITED.to_owned(), parts.join(","));
        } else if let Some(annotations) = &mut restore.metadata.annotations {
            annotations.remove(AWAITED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        let mut restore = Restore::new("velero", "r", Default::default());
        assert_eq!(Awaited::noted(&restore), None);
        for (hooks, volumes) in [(true, false), (false, true), (true, true)] {
            let awaited = Awaited { hooks, volumes };
            awaited.note(&mut restore);
            assert_eq!(Awaited::noted(&restore), Some(awaited));
        }
        Awaited::default().note(&mut restore);
        assert_eq!(Awaited::noted(&restore), None);
    }
}
