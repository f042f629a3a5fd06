//! Follows a snapshot until it can be used.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use velero_api::annotations;
use velero_api::features::ENABLE_CSI;
use velero_api::type_names::VOLUME_SNAPSHOTS;
use velero_api::v1::{Backup, BackupPhase};
use velero_cluster::Cluster;
use velero_plugin::item::{label, set_annotation, text};
use velero_plugin::{BackupItemAction, BackupItemOutcome, Error, OperationProgress, ResourceSelector, Result};
use velero_rules::quantity::Quantity;

use super::claim::backup_labels;
use super::{is_moved, kept_out};
use crate::objects::{CLASSES, CONTENTS, SNAPSHOTS, bound_content, failure, handle, identity, is_finalizing, is_ready};
use crate::removal::discard;

const NAME: &str = "velero.io/csi-volumesnapshot-backupper";

/// Notes what a restore needs on a snapshot; its operation ends when the snapshot can be used.
pub(super) struct BackupAction {
    cluster: Cluster,
}

impl BackupAction {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    /// Notes what a restore needs, and begins to follow a snapshot that has a content.
    async fn follow(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let (namespace, name) = identity(item);
        let class = text(item, "/spec/volumeSnapshotClassName");
        let class = Some(class).filter(|class| !class.is_empty()).map(|class| CLASSES.identifier("", class));
        let mut additional_items: Vec<_> = class.into_iter().collect();
        let content = match bound_content(item) {
            Some(content) => self.cluster.get(CONTENTS.item(None, content)).await?,
            None => None,
        };
        // One that is not this backup's own may have no content yet; then there is nothing to follow.
        let Some(content) = content else {
            return Ok(BackupItemOutcome { additional_items, ..BackupItemOutcome::default() });
        };
        let content_name = text(&content, "/metadata/name");
        additional_items.push(CONTENTS.identifier("", content_name));
        let labels: Map<String, Value> =
            backup_labels(backup).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        self.cluster.merge_patch(CONTENTS.item(None, content_name), &json!({"metadata": {"labels": labels}})).await?;
        // They are in the cluster too, because the snapshot is read again when it can be used.
        let patch = json!({"metadata": {"annotations": notes(&content)}});
        let mut stored = self.cluster.merge_patch(SNAPSHOTS.item(Some(namespace), name), &patch).await?;
        set_annotation(&mut stored, annotations::MUST_INCLUDE_ADDITIONAL_ITEMS, "true");
        Ok(BackupItemOutcome {
            updated_item: Some(stored),
            additional_items,
            operation_id: Some(operation_id(namespace, name, Timestamp::now())),
            items_to_update: vec![SNAPSHOTS.identifier(namespace, name), CONTENTS.identifier("", content_name)],
        })
    }

    fn is_own(snapshot: &Value, backup: &Backup) -> bool {
        let [(key, value), _] = backup_labels(backup);
        label(snapshot, key) == Some(value.as_str())
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOTS]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        // Then it is only read again; its objects go when it is stored.
        if is_finalizing(backup) {
            return Ok(BackupItemOutcome::default());
        }
        if is_moved(item, backup) {
            return Ok(kept_out(item));
        }
        let followed = self.follow(item, backup).await;
        if followed.is_err() && Self::is_own(item, backup) {
            // Nobody would know of it.
            let (namespace, name) = identity(item);
            discard(&self.cluster, namespace, name).await?;
        }
        followed
    }

    async fn progress(&self, operation_id: &str, _: &Backup) -> Result<OperationProgress> {
        let (namespace, name, started) = parse(operation_id)?;
        let begun = OperationProgress { started: Some(started), ..OperationProgress::default() };
        let ended = |error: String| {
            let updated = Some(Timestamp::now());
            OperationProgress { completed: true, error, updated, ..begun.clone() }
        };
        let gone = |what: &str| ended(format!("{what} was deleted before the driver had made the snapshot usable"));
        let Some(snapshot) = self.cluster.get(SNAPSHOTS.item(Some(namespace), name)).await? else {
            return Ok(gone(&format!("VolumeSnapshot {namespace}/{name}")));
        };
        if let Some(message) = failure(&snapshot).filter(|_| !is_ready(&snapshot)) {
            let description = format!("The driver will try again: {message}");
            return Ok(OperationProgress { description, ..begun });
        }
        let Some(content) = bound_content(&snapshot) else {
            return Ok(begun);
        };
        let Some(content) = self.cluster.get(CONTENTS.item(None, content)).await? else {
            return Ok(gone(&format!("VolumeSnapshotContent {content} of VolumeSnapshot {namespace}/{name}")));
        };
        if is_ready(&snapshot) && is_ready(&content) {
            return Ok(ended(String::new()));
        }
        match failure(&content) {
            Some(message) => Ok(ended(message.to_owned())),
            None => {
                let driver = text(&content, "/spec/driver");
                let description = format!("Waiting until driver {driver} has made the snapshot usable");
                Ok(OperationProgress { description, ..begun })
            }
        }
    }

    /// CSI knows no way to stop a driver, but what it makes can be removed. What can be used already is safe as long as
    /// its backup goes on; a backup that fails or is deleted removes its snapshots itself.
    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        let (namespace, name, _) = parse(operation_id)?;
        let snapshot = self.cluster.get(SNAPSHOTS.item(Some(namespace), name)).await?;
        if snapshot.is_some_and(|snapshot| is_safe(&snapshot, backup.status.phase())) {
            return Ok(());
        }
        discard(&self.cluster, namespace, name).await
    }
}

/// Whether a snapshot can be used and its backup may still come to an end that it can be restored from.
fn is_safe(snapshot: &Value, phase: &BackupPhase) -> bool {
    is_ready(snapshot) && phase.stage().is_under_way()
}

/// `<namespace>/<name>/<when it began>`
fn operation_id(namespace: &str, name: &str, begun: Timestamp) -> String {
    format!("{namespace}/{name}/{}", begun.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

fn parse(operation_id: &str) -> Result<(&str, &str, Timestamp)> {
    let parts: Vec<&str> = operation_id.split('/').collect();
    if let [namespace, name, begun] = parts.as_slice()
        && let Ok(begun) = begun.parse()
    {
        return Ok((namespace, name, begun));
    }
    Err(Error::InvalidOperationId { action: NAME.to_owned(), operation_id: operation_id.to_owned() })
}

/// What a restore has to know of the content of a snapshot.
fn notes(content: &Value) -> Map<String, Value> {
    let mut notes = Map::new();
    let mut note = |key: &str, value: &str| {
        notes.insert(key.to_owned(), value.into());
    };
    note(annotations::VOLUME_SNAPSHOT_CONTENT_DELETION_POLICY, text(content, "/spec/deletionPolicy"));
    if let Some(handle) = handle(content) {
        note(annotations::VOLUME_SNAPSHOT_HANDLE, handle);
        note(annotations::CSI_DRIVER_NAME, text(content, "/spec/driver"));
    }
    if let Some(size) = content.pointer("/status/restoreSize").and_then(Value::as_i64) {
        note(annotations::VOLUME_SNAPSHOT_RESTORE_SIZE, &Quantity::in_binary(size));
    }
    let group = text(content, "/status/volumeGroupSnapshotHandle");
    if !group.is_empty() {
        note(annotations::VOLUME_GROUP_SNAPSHOT_HANDLE, group);
    }
    notes
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-contents", note), Parser::of("csi-operations", read_operation)]
    }

    fn note(bytes: &[u8]) {
        let Ok(content) = serde_json::from_slice::<Value>(bytes) else { return };
        assert!(notes(&content).values().all(Value::is_string));
        let _ = (is_safe(&content, &BackupPhase::InProgress), BackupAction::is_own(&content, &Backup::default()));
    }

    fn read_operation(bytes: &[u8]) {
        if let Ok((namespace, name, begun)) = parse(&String::from_utf8_lossy(bytes)) {
            let again = operation_id(namespace, name, begun);
            assert_eq!(parse(&again).unwrap().0, namespace);
        }
    }

    strike_all!(parsers);

    #[test]
    fn an_operation_is_known_by_its_snapshot_and_when_it_began() {
        let begun: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let id = operation_id("shop", "velero-data-x", begun);
        assert_eq!(id, "shop/velero-data-x/2026-01-02T03:04:05Z");
        assert_eq!(parse(&id).unwrap(), ("shop", "velero-data-x", begun));
        for wrong in ["", "shop/x", "shop/x/yesterday", "a/b/c/d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cancelled_snapshot_stays_only_if_it_can_be_used_and_its_backup_goes_on() {
        use BackupPhase::{Deleting, FinalizingPartiallyFailed, InProgress, New, WaitingForPluginOperations};
        for (ready, phase, stays) in [
            (true, InProgress, true),
            (true, WaitingForPluginOperations, true),
            (true, FinalizingPartiallyFailed, true),
            (true, Deleting, false),
            // The object of the backup is gone.
            (true, New, false),
            (false, WaitingForPluginOperations, false),
        ] {
            let snapshot = json!({"status": {"readyToUse": ready}});
            assert_eq!(is_safe(&snapshot, &phase), stays, "{ready} {phase}");
        }
    }

    #[test]
    fn what_a_restore_needs_is_noted_as_far_as_it_is_known() {
        let spec = json!({"deletionPolicy": "Delete", "driver": "disk"});
        let status = json!({"snapshotHandle": "h", "restoreSize": 1_i64 << 30, "volumeGroupSnapshotHandle": "g"});
        let all = json!({
            "velero.io/csi-vsc-deletion-policy": "Delete",
            "velero.io/csi-volumesnapshot-handle": "h",
            "velero.io/csi-driver-name": "disk",
            "velero.io/csi-volumesnapshot-restore-size": "1Gi",
            "velero.io/csi-volumegroupsnapshot-handle": "g",
        });
        assert_eq!(Value::Object(notes(&json!({"spec": spec, "status": status}))), all);
        let few = json!({"velero.io/csi-vsc-deletion-policy": "Delete"});
        assert_eq!(Value::Object(notes(&json!({"spec": spec}))), few);
    }
}
