//! What the action reads from a claim and its volume, and what it leaves in the claim that is stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use velero_api::v1::Backup;
use velero_plugin::item::{annotation, filled, label, name, namespace, text};

/// The vSphere CSI driver.
const DRIVER: &str = "csi.vsphere.vmware.com";

/// Where the vSphere plugin keeps the Snapshot record of a stored claim; its restore and delete actions read it.
const SNAPSHOT_ANNOTATION: &str = "velero-plugin-for-vsphere/item-snapshot-blob";

/// Annotations that only the CSI driver may set: a claim that has them could not be restored.
const HEALTH_ANNOTATIONS: [&str; 2] =
    ["volumehealth.storage.kubernetes.io/health", "volumehealth.storage.kubernetes.io/health-timestamp"];

/// The label of Snapshot records that names the backup.
pub(crate) const BACKUP_LABEL: &str = "velero.io/backup-name";

/// The volume that a claim is bound to.
pub(crate) fn volume_name(claim: &Value) -> Option<&str> {
    filled(claim, "/spec/volumeName")
}

/// Whether a volume is of the vSphere CSI driver.
pub(crate) fn is_of_vsphere(volume: &Value) -> bool {
    text(volume, "/spec/csi/driver") == DRIVER
}

/// The Snapshot record that the vSphere plugin has left in a claim during this backup.
pub(crate) fn noted_snapshot(claim: &Value, backup: &Backup) -> Option<Value> {
    let note = annotation(claim, SNAPSHOT_ANNOTATION)?;
    let snapshot: Value = serde_json::from_slice(&STANDARD.decode(note).ok()?).ok()?;
    is_of(&snapshot, claim, backup).then_some(snapshot)
}

/// Whether a Snapshot record is of a claim and of this very backup, not of one before that had the same name.
pub(crate) fn is_of(snapshot: &Value, claim: &Value, backup: &Backup) -> bool {
    let started = backup.status.start_timestamp.as_ref().map(|time| time.0);
    let created: Option<jiff::Timestamp> = text(snapshot, "/metadata/creationTimestamp").parse().ok();
    let is_recent = match (created, started) {
        // Times of Kubernetes are whole seconds.
        (Some(created), Some(started)) => created.as_second() >= started.as_second(),
        _ => true,
    };
    label(snapshot, BACKUP_LABEL) == backup.metadata.name.as_deref()
        && namespace(snapshot) == namespace(claim)
        && text(snapshot, "/spec/resourceHandle/name") == name(claim)
        && is_recent
}

/// The claim as it is to be stored: with its Snapshot record.
pub(crate) fn with_snapshot(claim: &Value, snapshot: &Value) -> Value {
    let mut claim = claim.clone();
    let annotations = &mut claim["metadata"]["annotations"];
    if let Some(annotations) = annotations.as_object_mut() {
        HEALTH_ANNOTATIONS.iter().for_each(|annotation| drop(annotations.remove(*annotation)));
    }
    annotations[SNAPSHOT_ANNOTATION] = json!(STANDARD.encode(snapshot.to_string()));
    claim
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let metadata = json!({"name": "nightly", "namespace": "velero"});
        let status = json!({"startTimestamp": "2026-01-02T03:04:05Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
    }

    fn claim() -> Value {
        json!({"metadata": {"name": "data", "namespace": "shop"}, "spec": {"volumeName": "pv-1"}})
    }

    fn snapshot(backup: &str, claim: &str, created: &str) -> Value {
        let labels = json!({(BACKUP_LABEL): backup});
        let metadata = json!({"name": "snap-1", "namespace": "shop", "labels": labels, "creationTimestamp": created});
        json!({"metadata": metadata, "spec": {"resourceHandle": {"kind": "PersistentVolumeClaim", "name": claim}}})
    }

    #[test]
    fn the_record_of_this_backup_and_claim_is_known_from_others() {
        let now = "2026-01-02T03:04:05Z";
        for (backup_name, claim_name, created, expected) in [
            ("nightly", "data", now, true),
            ("nightly", "data", "2026-01-02T03:04:04Z", false),
            ("other", "data", now, false),
            ("nightly", "other", now, false),
        ] {
            let found = is_of(&snapshot(backup_name, claim_name, created), &claim(), &backup());
            assert_eq!(found, expected, "{backup_name} {claim_name} {created}");
        }
    }

    #[test]
    fn a_stored_claim_holds_its_record_and_no_health() {
        let record = snapshot("nightly", "data", "2026-01-02T03:04:05Z");
        let mut live = claim();
        live["metadata"]["annotations"] = json!({(HEALTH_ANNOTATIONS[0]): "accessible", "team": "shop"});
        let stored = with_snapshot(&live, &record);
        let annotations = stored["metadata"]["annotations"].as_object().unwrap();
        assert!(annotations.contains_key("team") && !annotations.contains_key(HEALTH_ANNOTATIONS[0]), "{stored}");
        assert_eq!(noted_snapshot(&stored, &backup()), Some(record.clone()));
        assert_eq!(noted_snapshot(&with_snapshot(&claim(), &record), &backup()), Some(record));
        assert_eq!(noted_snapshot(&claim(), &backup()), None);
    }

    #[test]
    fn only_volumes_of_the_driver_count() {
        assert!(is_of_vsphere(&json!({"spec": {"csi": {"driver": DRIVER}}})));
        assert!(!is_of_vsphere(&json!({"spec": {"csi": {"driver": "csi.example.com"}}})));
        assert!(!is_of_vsphere(&json!({"spec": {"hostPath": {"path": "/"}}})));
        assert_eq!(volume_name(&claim()), Some("pv-1"));
        assert_eq!(volume_name(&json!({"spec": {"volumeName": ""}})), None);
    }
}
