//! Takes a snapshot of the volume of a claim.
//!
//! The action returns when the driver has named the snapshot: from then on its data is fixed, and hooks may let the
//! pods go on. Until it can be used more time may pass, which is the business of the action on the snapshot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::features::ENABLE_CSI;
use velero_api::metadata;
use velero_api::records::VolumeMethod;
use velero_api::v1::Backup;
use velero_api::{annotations, labels};
use velero_cluster::{Cluster, Discovery, Error as ClusterError, types};
use velero_plugin::item::{set_annotation, set_label, text};
use velero_plugin::{
    BackupItemAction, BackupItemOutcome, Error, OperationProgress, ResourceSelector, Result, VolumeKeeper,
};
use velero_rules::quantity::Quantity;
use velero_rules::resource_policies::SnapshotParameters;

use super::group::Groups;
use super::mover::Mover;
use crate::classes::Classes;
use crate::keeper::Keeper;
use crate::movement::{NodeAgents, moves_data};
use crate::objects::{
    CLASSES, CONTENTS, GroupTypes, SNAPSHOTS, bound_content, failure, handle, identity, is_finalizing,
};
use crate::removal::discard;

/// What the action is called.
pub(super) const NAME: &str = "velero.io/csi-pvc-backupper";

/// Takes snapshots of volumes of CSI drivers.
pub(super) struct BackupAction {
    cluster: Cluster,
    classes: Classes,
    groups: Groups,
    keeper: Keeper,
    mover: Mover,
}

impl BackupAction {
    pub(super) fn new(cluster: &Cluster, discovery: &Discovery, agents: &Arc<NodeAgents>) -> Self {
        Self {
            cluster: cluster.clone(),
            classes: Classes::new(cluster, CLASSES.clone()),
            groups: Groups::new(cluster, discovery),
            keeper: Keeper { cluster: cluster.clone(), groups: GroupTypes::served(discovery) },
            mover: Mover::new(cluster, agents),
        }
    }

    /// Begins the snapshot of a claim's volume, alone or together with its group; gives its name.
    async fn begin(&self, claim: &Value, driver: &str, backup: &Backup, of_policy: Option<&str>) -> Result<String> {
        if let Some(class) = of_policy {
            self.groups.check_alone(claim, class, backup)?;
        }
        if let Some(snapshot) = self.groups.snapshot(claim, driver, backup).await? {
            return Ok(snapshot);
        }
        let class = self.classes.for_claim(driver, claim, backup, of_policy).await?;
        let wanted = new_snapshot(claim, class, backup);
        let made = self.cluster.create_once(&SNAPSHOTS, Some(identity(claim).0), &wanted).await?;
        Ok(text(&made, "/metadata/name").to_owned())
    }

    /// Waits until the driver has named a snapshot; gives it and its content.
    async fn wait_for_handle(&self, namespace: &str, name: &str, patience: Duration) -> Result<(Value, Value)> {
        let begun = Instant::now();
        let bound = |snapshot: Option<&Value>| snapshot.is_none_or(|snapshot| bound_content(snapshot).is_some());
        let snapshot = self.cluster.wait_until(SNAPSHOTS.item(Some(namespace), name), patience, bound).await?;
        let snapshot = snapshot.ok_or_else(|| gone(namespace, name))?;
        let content = bound_content(&snapshot).ok_or_else(|| gone(namespace, name))?;
        let left = patience.saturating_sub(begun.elapsed());
        let named = |content: Option<&Value>| content.is_none_or(|content| handle(content).is_some());
        let content = self.cluster.wait_until(CONTENTS.item(None, content), left, named).await?;
        let content = content.ok_or_else(|| gone(namespace, name))?;
        Ok((snapshot, content))
    }

    /// Removes a snapshot that did not come about; gives the reason in words.
    async fn give_up(&self, claim: &Value, driver: &str, snapshot: &str, error: Error, patience: Duration) -> Error {
        let (namespace, name) = identity(claim);
        let volume = text(claim, "/spec/volumeName");
        let reason = match error {
            Error::Cluster(ClusterError::TimedOut { .. }) => {
                let said = self.what_the_driver_said(namespace, snapshot).await;
                format!("driver {driver} did not take it within {patience:?} (csiSnapshotTimeout){said}")
            }
            error => error.to_string(),
        };
        let left = match discard(&self.cluster, namespace, snapshot).await {
            Ok(()) => String::new(),
            Err(error) => format!("; VolumeSnapshot {namespace}/{snapshot} is left: {error}"),
        };
        Error::Item(format!(
            "no snapshot {namespace}/{snapshot} of volume {volume} of claim {namespace}/{name}: {reason}{left}"
        ))
    }

    async fn what_the_driver_said(&self, namespace: &str, name: &str) -> String {
        let snapshot = self.cluster.get(SNAPSHOTS.item(Some(namespace), name)).await.ok().flatten();
        let content = match snapshot.as_ref().and_then(bound_content) {
            Some(content) => self.cluster.get(CONTENTS.item(None, content)).await.ok().flatten(),
            None => None,
        };
        let said = content.as_ref().and_then(failure).or_else(|| snapshot.as_ref().and_then(failure));
        said.map(|message| format!(": {message}")).unwrap_or_default()
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["persistentvolumeclaims"]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    fn saves_volume(&self) -> Option<VolumeMethod> {
        Some(VolumeMethod::CsiSnapshot)
    }

    fn volume_keeper(&self) -> Option<&dyn VolumeKeeper> {
        Some(&self.keeper)
    }

    fn waits(&self) -> bool {
        true
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        self.execute_with(item, backup, &SnapshotParameters::default()).await
    }

    async fn execute_with(
        &self,
        item: &Value,
        backup: &Backup,
        parameters: &SnapshotParameters,
    ) -> Result<BackupItemOutcome> {
        let volume = text(item, "/spec/volumeName");
        if is_finalizing(backup) || text(item, "/status/phase") != "Bound" || volume.is_empty() {
            return Ok(BackupItemOutcome::default());
        }
        let (namespace, name) = identity(item);
        let Some(volume) = self.cluster.get(types::PERSISTENT_VOLUMES.item(None, volume)).await? else {
            return Err(Error::Item(format!("volume {volume} of claim {namespace}/{name} does not exist")));
        };
        let driver = text(&volume, "/spec/csi/driver");
        if driver.is_empty() {
            return Ok(BackupItemOutcome::default());
        }
        let patience = backup.spec.csi_snapshot_timeout.to_std();
        if moves_data(backup) {
            self.mover.check(item)?;
        }
        let name = self.begin(item, driver, backup, parameters.snapshot_class.as_deref()).await?;
        let (snapshot, content) = match self.wait_for_handle(namespace, &name, patience).await {
            Ok(found) => found,
            Err(error) => return Err(self.give_up(item, driver, &name, error, patience).await),
        };
        if moves_data(backup) {
            let data_mover = parameters.data_mover.as_deref().unwrap_or(&backup.spec.data_mover);
            return self.mover.begin(item, &snapshot, &content, backup, data_mover).await;
        }
        Ok(BackupItemOutcome {
            additional_items: vec![SNAPSHOTS.identifier(namespace, &name)],
            updated_item: Some(with_snapshot(item, &name, &content, backup)),
            ..BackupItemOutcome::default()
        })
    }

    /// Of the operations, only those that move data are its own.
    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        self.mover.progress(operation_id, backup).await
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        self.mover.cancel(operation_id, backup).await
    }
}

fn gone(namespace: &str, name: &str) -> Error {
    Error::Item(format!("VolumeSnapshot {namespace}/{name} or its content was deleted while the driver worked on it"))
}

/// The snapshot of a claim's volume. It has the labels of the claim but for those that restores left on it, and those by
/// which its backup finds it.
fn new_snapshot(claim: &Value, class: &str, backup: &Backup) -> Value {
    let (namespace, name) = identity(claim);
    let mut labels = claim.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    labels.retain(|key, _| ![labels::RESTORE_NAME, labels::VOLUME_SNAPSHOT_NAME].contains(&key.as_str()));
    let mut snapshot = json!({
        "apiVersion": SNAPSHOTS.api_version(),
        "kind": SNAPSHOTS.kind,
        "metadata": {"generateName": format!("velero-{name}-"), "namespace": namespace, "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": name}, "volumeSnapshotClassName": class},
    });
    for (key, value) in backup_labels(backup) {
        set_label(&mut snapshot, key, &value);
    }
    snapshot
}

/// The labels by which a backup finds what it made.
pub(super) fn backup_labels(backup: &Backup) -> [(&'static str, String); 2] {
    [
        (labels::BACKUP_NAME, labels::valid_value(metadata::name(backup))),
        (labels::BACKUP_UID, metadata::uid(backup).to_owned()),
    ]
}

/// The claim as it is stored: it names its snapshot.
pub(super) fn naming_snapshot(claim: &Value, snapshot: &str, backup: &Backup) -> Value {
    let mut stored = claim.clone();
    let [(backup_name, backup), _] = backup_labels(backup);
    set_label(&mut stored, labels::VOLUME_SNAPSHOT_NAME, snapshot);
    set_label(&mut stored, backup_name, &backup);
    set_annotation(&mut stored, annotations::VOLUME_SNAPSHOT_NAME, snapshot);
    set_annotation(&mut stored, annotations::MUST_INCLUDE_ADDITIONAL_ITEMS, "true");
    stored
}

/// The claim as it is stored: it names its snapshot, and asks for as much space as that needs.
fn with_snapshot(claim: &Value, snapshot: &str, content: &Value, backup: &Backup) -> Value {
    let mut stored = naming_snapshot(claim, snapshot, backup);
    let needed = content.pointer("/status/restoreSize").and_then(Value::as_i64).unwrap_or_default();
    let asked = text(claim, "/spec/resources/requests/storage").parse::<Quantity>().unwrap_or_default();
    if Quantity::from(needed) > asked
        && let Some(spec) = stored.get_mut("spec").and_then(Value::as_object_mut)
    {
        let resources = spec.entry("resources").or_insert_with(|| json!({}));
        if let Some(resources) = resources.as_object_mut() {
            let requests = resources.entry("requests").or_insert_with(|| json!({}));
            if let Some(requests) = requests.as_object_mut() {
                requests.insert("storage".to_owned(), Quantity::in_binary(needed).into());
            }
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn backup() -> Backup {
        let mut backup = Backup::new("velero", &"b".repeat(70), Default::default());
        backup.metadata.uid = Some("u".to_owned());
        backup
    }

    fn claim() -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "data", "labels": {"app": "web", labels::RESTORE_NAME: "r"}},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        })
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-claims-with-content", take)]
    }

    fn take(bytes: &[u8]) {
        let Ok(both) = serde_json::from_slice::<Value>(bytes) else { return };
        let stored = with_snapshot(&both["claim"], "s", &both["content"], &backup());
        assert_eq!(stored.is_object(), both["claim"].is_object());
        assert!(new_snapshot(&both["claim"], "fast", &backup())["metadata"]["labels"].is_object());
        let _ = (bound_content(&both["content"]), failure(&both["content"]), handle(&both["content"]));
    }

    strike_all!(parsers);

    #[test]
    fn a_snapshot_names_its_claim_its_class_and_its_backup() {
        let snapshot = new_snapshot(&claim(), "fast", &backup());
        assert_eq!(snapshot["metadata"]["generateName"], "velero-data-");
        assert_eq!(snapshot["metadata"]["labels"]["app"], "web");
        assert!(snapshot["metadata"]["labels"].get(labels::RESTORE_NAME).is_none(), "it was not restored");
        assert_eq!(snapshot["metadata"]["labels"][labels::BACKUP_UID], "u");
        assert_eq!(snapshot["metadata"]["labels"][labels::BACKUP_NAME].as_str().unwrap().len(), 63);
        assert_eq!(snapshot["spec"]["source"], json!({"persistentVolumeClaimName": "data"}));
        let unlabelled = new_snapshot(&json!({"metadata": {"name": "data"}}), "fast", &backup());
        assert_eq!(unlabelled["metadata"]["labels"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn a_claim_asks_for_the_larger_of_its_request_and_the_size_of_the_snapshot() {
        for (size, expected) in
            [(json!(null), "1Gi"), (json!(1024), "1Gi"), (json!(1_i64 << 31), "2Gi"), (json!((3_i64 << 20) + 1), "1Gi")]
        {
            let stored = with_snapshot(&claim(), "s", &json!({"status": {"restoreSize": size}}), &backup());
            assert_eq!(stored["spec"]["resources"]["requests"]["storage"], expected, "{size}");
            assert_eq!(stored["metadata"]["annotations"][annotations::VOLUME_SNAPSHOT_NAME], "s");
        }
        let bare = with_snapshot(
            &json!({"metadata": {}, "spec": {}}),
            "s",
            &json!({"status": {"restoreSize": 1025}}),
            &backup(),
        );
        assert_eq!(bare["spec"], json!({"resources": {"requests": {"storage": "1025"}}}));
    }
}
