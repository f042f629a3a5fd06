//! What goes on beside a backup or restore, by the one that it belongs to: data of volumes on its way, and requests to delete it. It tells
//! whether something moved since it was last looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kept::RowDigest;
use crate::rows::{DeletionRow, DownloadRow, RestoredCopyRow};

/// When something was last told of data on its way, by the value of the label that names the backup or restore it belongs to.
#[derive(Default)]
pub(crate) struct Moves {
    /// How many volumes are on their way, and which change of all was the last of theirs.
    by_owner: BTreeMap<Box<str>, (usize, u64)>,
    changes: u64,
}

impl Moves {
    /// Which change was the last one, of those of a backup or restore; nothing where no data of it is on its way.
    pub(crate) fn last(&self, owner: &str) -> Option<u64> {
        self.by_owner.get(owner).map(|(_, last)| *last)
    }

    /// Takes in what is told of a volume on its way.
    pub(crate) fn take_in(&mut self, owner: &str) {
        self.changes += 1;
        let (count, last) = self.by_owner.entry(owner.into()).or_default();
        *count += 1;
        *last = self.changes;
    }

    /// Takes out what was told of a volume: something else is, or it has arrived.
    pub(crate) fn take_out(&mut self, owner: &str) {
        let Some((count, last)) = self.by_owner.get_mut(owner) else { return };
        self.changes += 1;
        *count = count.saturating_sub(1);
        *last = self.changes;
        if *count == 0 {
            self.by_owner.remove(owner);
        }
    }
}

/// Rows that tell nothing but which backup or restore they belong to.
macro_rules! moves_of {
    ($($row:ty),*) => {
        $(impl RowDigest<$row> for Moves {
            fn add(&mut self, row: &Arc<$row>) {
                self.take_in(&row.0);
            }

            fn remove(&mut self, row: &Arc<$row>) {
                self.take_out(&row.0);
            }
        })*
    };
}

moves_of!(RestoredCopyRow, DownloadRow, DeletionRow);

#[cfg(test)]
mod tests {
    use velero_report::VolumeFact;

    use crate::kept::Kept;
    use crate::rows::{CopyRow, DeletionRow};

    #[test]
    fn a_request_to_delete_a_backup_is_told_of_each_time_it_changes_and_until_it_is_gone() {
        let mut kept = Kept::<DeletionRow>::default();
        let mut seen = vec![kept.digest().last("daily")];
        for row in [Some(DeletionRow("daily".into())), Some(DeletionRow("daily".into())), None] {
            kept.put("daily-x".to_owned(), row);
            seen.push(kept.digest().last("daily"));
        }
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]) && seen[3].is_none(), "{seen:?}");
    }

    #[test]
    fn data_on_its_way_is_told_of_by_backup_each_time_it_moves() {
        let mut kept = Kept::<CopyRow>::default();
        let fact = |backup: &str, bytes: u64, is_complete: bool| {
            Some(CopyRow(VolumeFact { backup: backup.to_owned(), bytes, is_complete }))
        };
        let last = |kept: &Kept<CopyRow>| kept.digest().moves().last("daily");
        assert_eq!(last(&kept), None);
        let mut seen = vec![None];
        kept.put("a".to_owned(), fact("daily", 1, false));
        seen.push(last(&kept));
        kept.put("a".to_owned(), fact("daily", 2, false));
        seen.push(last(&kept));
        kept.put("b".to_owned(), fact("daily", 0, false));
        seen.push(last(&kept));
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
        kept.put("c".to_owned(), fact("weekly", 0, false));
        assert_eq!(last(&kept), seen[3], "another backup");
        kept.put("a".to_owned(), fact("daily", 3, true));
        assert_ne!(last(&kept), seen[3], "it is complete");
        kept.put("b".to_owned(), None);
        assert_eq!((last(&kept), kept.digest().of("daily")), (None, Some(3)));
    }
}
