//! The manifests around a backup, as Velero writes them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::file::PART;
use crate::clock::has_passed;
use crate::manifest::{CLIENT, Labels, Manifest, SNAPSHOT, Snapshot, Source, Stats};
use crate::writer::ContentWriter;
use crate::{Error, Repository, Result};

/// What keeps Velero's retention from removing a snapshot.
const PIN: &str = "velero-pin";
/// The tags that must be equal for a snapshot to be a parent.
const PARENT_TAGS: [&str; 2] = ["snapshot-requester", "snapshot-uploader"];
/// After how many seconds an incomplete snapshot with a pin is left over: Velero leaves such when a backup is canceled.
const LEFT_OVER: i64 = 24 * 3600;

/// What is to be saved, and under which names.
#[derive(Debug, Clone)]
pub struct SnapshotRequest {
    /// Who asks, the uploader and the volume, joined by slashes.
    pub path: String,
    /// Free text.
    pub description: String,
    /// What its owner knows it by.
    pub tags: Labels,
}

impl SnapshotRequest {
    /// As Velero asks: `requester` is the kind of the job, `source` the volume.
    pub fn of_velero(requester: &str, source: &str, more: Labels) -> Self {
        let mut tags = more;
        tags.insert("snapshot-requester".to_owned(), requester.to_owned());
        tags.insert("snapshot-uploader".to_owned(), "kopia".to_owned());
        Self { path: format!("{requester}/kopia/{source}"), description: "Kopia Uploader".to_owned(), tags }
    }

    /// The labels of every manifest of the source.
    pub(super) fn source_labels(&self) -> Labels {
        labels(&[("type", SNAPSHOT), ("hostname", CLIENT), ("username", CLIENT), ("path", &self.path)])
    }

    /// The labels of the manifest; tags may not take the place of others.
    pub(super) fn labels(&self) -> Result<Labels> {
        let mut all = self.source_labels();
        for (name, value) in &self.tags {
            if all.insert(name.clone(), value.clone()).is_some() {
                return Err(Error::malformed("the request", format!("tag {name:?} is a label of every snapshot")));
            }
        }
        Ok(all)
    }

    /// The record, before anything is known.
    pub(super) fn snapshot(&self, start_time: Timestamp) -> Snapshot {
        Snapshot {
            id: String::new(),
            source: Source { host: CLIENT.to_owned(), user_name: CLIENT.to_owned(), path: self.path.clone() },
            description: self.description.clone(),
            start_time,
            end_time: start_time,
            stats: Stats::default(),
            incomplete: String::new(),
            root_entry: None,
            tags: self.tags.clone(),
            pins: vec![PIN.to_owned()],
        }
    }

    /// Adds the snapshot and the policy of its source, and removes what is left of snapshots that never were complete.
    pub(super) fn write_manifests(
        &self,
        writer: &ContentWriter<'_>,
        all_labels: Labels,
        snapshot: &Snapshot,
        parallel: usize,
    ) -> Result<String> {
        let (of_source, now) = (self.source_labels(), writer.now());
        writer.delete_manifests(&|manifest| {
            is_of(manifest, &of_source)
                && manifest.snapshot().is_ok_and(|other| {
                    let old = has_passed(other.start_time, now, LEFT_OVER);
                    !other.incomplete.is_empty()
                        && (other.start_time <= snapshot.start_time && (other.pins.is_empty() || old))
                })
        })?;
        let policy_labels = labels(&[
            ("type", "policy"),
            ("policyType", "path"),
            ("hostname", CLIENT),
            ("username", CLIENT),
            ("path", &self.path),
        ]);
        let policy = Policy::of_velero(parallel);
        let held = writer.repository().manifests(&|manifest| is_of(manifest, &policy_labels))?;
        let wanted = crate::go_json::to_vec(&policy).unwrap_or_default();
        let is_held = held.len() == 1 && held[0].data.as_ref().is_some_and(|data| data.get().as_bytes() == wanted);
        if !is_held {
            writer.replace_manifest(policy_labels, &policy)?;
        }
        writer.put_manifest(all_labels, snapshot)
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn is_of(manifest: &Manifest, labels: &Labels) -> bool {
    labels.iter().all(|(name, value)| manifest.has_labels(&[(name, value)]))
}

/// The latest complete snapshot of the same source and requester.
pub fn find_parent(repository: &Repository, request: &SnapshotRequest) -> Result<Option<(String, Snapshot)>> {
    let of_source = request.source_labels();
    let mut best: Option<(String, Snapshot)> = None;
    for manifest in repository.manifests(&|manifest| is_of(manifest, &of_source))? {
        // One that cannot be understood is no parent; the backup is complete without it.
        let Ok(snapshot) = manifest.snapshot() else { continue };
        let same = PARENT_TAGS.iter().all(|tag| snapshot.tags.get(*tag) == request.tags.get(*tag));
        let later = best.as_ref().is_none_or(|(_, best)| best.start_time <= snapshot.start_time);
        if same && later && snapshot.incomplete.is_empty() && snapshot.root_entry.is_some() {
            best = Some((manifest.id, snapshot));
        }
    }
    Ok(best)
}

/// The policy of a source, in the order kopia writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    retention: Retention,
    files: serde_json::Value,
    error_handling: serde_json::Value,
    scheduling: serde_json::Value,
    compression: serde_json::Value,
    metadata_compression: serde_json::Value,
    splitter: serde_json::Value,
    actions: serde_json::Value,
    os_snapshots: serde_json::Value,
    logging: Logging,
    upload: UploadPolicy,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Retention {
    keep_latest: u32,
    keep_hourly: u32,
    keep_daily: u32,
    keep_weekly: u32,
    keep_monthly: u32,
    keep_annual: u32,
}

#[derive(Serialize)]
struct Logging {
    directories: serde_json::Value,
    entries: serde_json::Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UploadPolicy {
    max_parallel_file_reads: usize,
    parallel_upload_above_size: u64,
}

impl Policy {
    fn of_velero(parallel: usize) -> Self {
        const ALL: u32 = i32::MAX as u32;
        Self {
            retention: Retention {
                keep_latest: ALL,
                keep_hourly: ALL,
                keep_daily: ALL,
                keep_weekly: ALL,
                keep_monthly: ALL,
                keep_annual: ALL,
            },
            files: json!({}),
            error_handling: json!({ "ignoreUnknownTypes": true }),
            scheduling: json!({ "manual": true }),
            compression: json!({ "compressorName": "none" }),
            metadata_compression: json!({}),
            splitter: json!({}),
            actions: json!({}),
            os_snapshots: json!({ "volumeShadowCopy": {} }),
            logging: Logging { directories: json!({}), entries: json!({}) },
            upload: UploadPolicy { max_parallel_file_reads: parallel, parallel_upload_above_size: PART },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_that_of_velero() {
        assert_eq!(
            serde_json::to_string(&Policy::of_velero(2)).unwrap(),
            r#"{"retention":{"keepLatest":2147483647,"keepHourly":2147483647,"keepDaily":2147483647,"keepWeekly":2147483647,"keepMonthly":2147483647,"keepAnnual":2147483647},"files":{},"errorHandling":{"ignoreUnknownTypes":true},"scheduling":{"manual":true},"compression":{"compressorName":"none"},"metadataCompression":{},"splitter":{},"actions":{},"osSnapshots":{"volumeShadowCopy":{}},"logging":{"directories":{},"entries":{}},"upload":{"maxParallelFileReads":2,"parallelUploadAboveSize":2147483648}}"#
        );
    }
}
