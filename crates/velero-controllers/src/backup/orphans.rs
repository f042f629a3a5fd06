//! Folders of a location that are no backups: uploads that never ended, or a backup whose object was removed before its
//! end. They are reported and never deleted, for another cluster may be writing them just now.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use velero_api::metadata::name;
use velero_api::v1::BackupStorageLocation;
use velero_archive::BackupFile;
use velero_store::BackupStore;

use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::Result;
use crate::runtime::events;
use crate::runtime::lock::lock;

/// How long a backup may be written until its folder is taken for abandoned.
const LONGEST_BACKUP: Duration = Duration::from_secs(24 * 3600);

/// How many names an event tells.
const TOLD: usize = 10;

/// The orphans that were reported, by location.
#[derive(Default)]
pub(crate) struct Orphans {
    known: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Orphans {
    /// Takes what was found in a location; gives what is new.
    fn news(&self, location: &str, found: &BTreeSet<String>) -> Vec<String> {
        let mut known = lock(&self.known);
        let before = known.insert(location.to_owned(), found.clone()).unwrap_or_default();
        found.difference(&before).cloned().collect()
    }

    /// Reports the orphans of a location: all as a metric, new ones in the log and as an event.
    pub(super) async fn report(&self, context: &Context, location: &BackupStorageLocation, found: BTreeSet<String>) {
        context.metrics.orphans(name(location), found.len());
        let news = self.news(name(location), &found);
        if news.is_empty() {
            return;
        }
        for backup in &news {
            tracing::warn!(
                location = name(location),
                backup,
                "The location holds files of a backup that never ended and is not known in this cluster; delete its folder \
                 if no other cluster is writing it"
            );
        }
        events::warn(context, location, "velero-backup-sync", "OrphanedBackup", "Synchronise", note(&news)).await;
    }
}

/// Whether a folder whose metadata were not found holds anything that nobody is writing: a deletion may have just ended, and who has
/// reserved the name of late is at work.
pub(crate) async fn is_abandoned(store: &BackupStore, backup: &str) -> Result<bool> {
    let folder = store.keys().backup_folder(backup).map_err(velero_store::Error::from)?;
    let metadata = store.keys().backup_file(backup, BackupFile::Metadata).map_err(velero_store::Error::from)?;
    let files = store.object_store().list_objects(&folder).await?;
    // The metadata may have come since they were looked for.
    if files.is_empty() || files.contains(&metadata) {
        return Ok(false);
    }
    let reservation = store.reservation(backup).await.unwrap_or_default();
    Ok(!reservation.is_some_and(|reservation| is_fresh(&reservation.reserved_at, clock::now())))
}

fn is_fresh(reserved_at: &str, now: Timestamp) -> bool {
    reserved_at.parse().is_ok_and(|reserved| clock::until(now, reserved) < LONGEST_BACKUP)
}

fn note(names: &[String]) -> String {
    let told = names.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the location holds files of backups that never ended and are not known in this cluster: {told}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_reported() {
        let orphans = Orphans::default();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(orphans.news("default", &set(&["a", "b"])), ["a", "b"]);
        assert!(orphans.news("default", &set(&["a", "b"])).is_empty());
        assert_eq!(orphans.news("default", &set(&["b", "c"])), ["c"]);
        assert_eq!(orphans.news("default", &set(&["a"])), ["a"], "it came back");
        assert_eq!(orphans.news("other", &set(&["a"])), ["a"]);
    }

    #[test]
    fn a_folder_whose_name_was_reserved_of_late_is_at_work() {
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        assert!(is_fresh("2026-01-02T11:59:00Z", now));
        assert!(!is_fresh("2026-01-01T11:59:00Z", now));
        assert!(!is_fresh("", now), "an unreadable reservation tells nothing");
    }

    #[test]
    fn an_event_stays_short() {
        let names: Vec<String> = (0..12).map(|number| format!("b{number}")).collect();
        assert!(note(&names).ends_with("b9 and 2 more"), "{}", note(&names));
        assert!(note(&names[..1]).ends_with("b0"));
    }
}
