//! Which clusters write to a location, as the newest backups there say.
//!
//! Our servers note in each backup which cluster made it, and in the reservation of one that is being written. Velero's do
//! neither: of theirs nothing is known.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use futures::future::join_all;
use jiff::Timestamp;
use velero_api::{annotations, metadata};

use crate::{BackupStore, Result, StoreConfig, TransferSettings};

/// How long a request is repeated: a person waits.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
/// As many backups are looked into.
const MOST: usize = 20;
/// A cluster that was not heard of for so many seconds is forgotten: 30 days, for which backups are kept by default.
const FORGOTTEN: i64 = 30 * 86_400;

/// A backup that says which cluster made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The cluster: the UID of its namespace `kube-system`.
    pub cluster: String,
    /// The namespace of its server.
    pub namespace: String,
    /// The name of the backup.
    pub backup: String,
    /// When it ended, or was begun if it has not ended.
    pub at: Timestamp,
}

/// Who made the newest backups of a location.
pub async fn writers(config: &StoreConfig, prefix: &str) -> Result<Vec<Writer>> {
    let transfer = TransferSettings { retries: 1, retry_timeout: RETRY_TIMEOUT, ..TransferSettings::default() };
    let config = StoreConfig { transfer, ..config.clone() };
    let store = BackupStore::new(config.open().await?, prefix);
    let names = newest(&store).await?;
    let found = join_all(names.iter().map(|name| writer(&store, name))).await;
    Ok(found.into_iter().flatten().collect())
}

/// The other cluster that was heard of last, unless that is long ago.
pub fn neighbour<'a>(writers: &'a [Writer], cluster: &str, now: Timestamp) -> Option<&'a Writer> {
    let is_remembered = |writer: &&Writer| now.as_second().saturating_sub(writer.at.as_second()) < FORGOTTEN;
    let others = writers.iter().filter(|writer| !writer.cluster.is_empty() && writer.cluster != cluster);
    others.filter(is_remembered).max_by_key(|writer| writer.at)
}

/// The names of the backups that were written last.
async fn newest(store: &BackupStore) -> Result<Vec<String>> {
    let folder = store.keys().backups_folder();
    let mut written: BTreeMap<String, SystemTime> = BTreeMap::new();
    let mut listed = store.object_store().list_prefix(&folder).await?;
    while let Some(object) = listed.try_next().await? {
        let below = object.key.strip_prefix(&folder).and_then(|below| below.split_once('/'));
        let Some((name, _)) = below else { continue };
        let last = written.entry(name.to_owned()).or_insert(object.modified);
        *last = object.modified.max(*last);
    }
    let mut names: Vec<(SystemTime, String)> = written.into_iter().map(|(name, last)| (last, name)).collect();
    names.sort();
    Ok(names.into_iter().rev().take(MOST).map(|(_, name)| name).collect())
}

/// Who made a backup, or is making it; one that cannot be read says nothing.
async fn writer(store: &BackupStore, name: &str) -> Option<Writer> {
    if let Ok(Some(reservation)) = store.reservation(name).await {
        let at = reservation.reserved_at.parse().ok()?;
        let (cluster, namespace) = (reservation.cluster, reservation.namespace);
        return Some(Writer { cluster, namespace, backup: name.to_owned(), at });
    }
    let backup = store.get_metadata(name).await.ok()?;
    Some(Writer {
        cluster: metadata::annotation(&backup, annotations::SOURCE_CLUSTER_UID).to_owned(),
        namespace: metadata::namespace(&backup).to_owned(),
        backup: name.to_owned(),
        at: backup.status.completion_timestamp.as_ref()?.0,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::Backup;

    use super::*;
    use crate::BackupReservation;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn ended(name: &str, cluster: &str, time: &str) -> Backup {
        let mut backup = json!({
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {"name": name, "namespace": "velero"},
            "spec": {},
            "status": {"completionTimestamp": time},
        });
        if !cluster.is_empty() {
            backup["metadata"]["annotations"][annotations::SOURCE_CLUSTER_UID] = json!(cluster);
        }
        serde_json::from_value(backup).unwrap()
    }

    #[tokio::test]
    async fn backups_say_which_cluster_made_them_or_makes_them() {
        let directory = tempfile::tempdir().unwrap();
        let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
        let store = BackupStore::new(config.open().await.unwrap(), "p");
        for backup in [ended("theirs", "there", "2026-01-03T00:00:00Z"), ended("of-velero", "", "2026-01-04T00:00:00Z")]
        {
            store.put_metadata(&backup).await.unwrap();
        }
        let reservation = BackupReservation {
            uid: "1".to_owned(),
            cluster: "elsewhere".to_owned(),
            namespace: "backups".to_owned(),
            reserved_at: "2026-01-05T00:00:00Z".to_owned(),
            ..BackupReservation::default()
        };
        store.reserve("running", &reservation).await.unwrap();
        store.object_store().put("p/backups/damaged/velero-backup.json", "{".into()).await.unwrap();
        let mut found = writers(&config, "p").await.unwrap();
        found.sort_by_key(|writer| writer.at);
        let found: Vec<[&str; 3]> = found
            .iter()
            .map(|writer| [writer.backup.as_str(), writer.cluster.as_str(), writer.namespace.as_str()])
            .collect();
        let expected =
            [["theirs", "there", "velero"], ["of-velero", "", "velero"], ["running", "elsewhere", "backups"]];
        assert_eq!(found, expected);
    }

    #[test]
    fn another_cluster_is_a_neighbour_as_long_as_it_was_heard_of_lately() {
        let now = at("2026-02-01T00:00:00Z");
        let writer = |cluster: &str, time: &str| Writer {
            cluster: cluster.to_owned(),
            namespace: "velero".to_owned(),
            backup: time.to_owned(),
            at: at(time),
        };
        for (found, expected) in [
            (vec![], None),
            (vec![writer("here", "2026-01-31T00:00:00Z"), writer("", "2026-01-31T00:00:00Z")], None),
            (vec![writer("there", "2026-01-02T00:00:00Z")], None),
            (vec![writer("there", "2026-01-03T00:00:00Z")], Some("2026-01-03T00:00:00Z")),
            (
                vec![writer("there", "2026-01-03T00:00:00Z"), writer("elsewhere", "2026-01-20T00:00:00Z")],
                Some("2026-01-20T00:00:00Z"),
            ),
            // Its clock is ahead of ours.
            (vec![writer("there", "2026-02-01T01:00:00Z")], Some("2026-02-01T01:00:00Z")),
        ] {
            assert_eq!(neighbour(&found, "here", now).map(|writer| writer.backup.as_str()), expected, "{found:?}");
        }
    }
}
