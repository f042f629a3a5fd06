//! The DataDownload of a claim: what a data mover has to know to fill its new volume.

use std::collections::BTreeMap;

use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata::{name, namespace, uid};
use velero_api::uploader_settings::{PARALLEL_FILES_DOWNLOAD, WRITE_SPARSE_FILES};
use velero_api::v1::{Backup, Restore, UploaderConfigForRestore};
use velero_api::v2alpha1::{DOWNLOAD_OPERATION, DataDownload, DataDownloadSpec, DataUploadResult, TargetVolumeSpec};
use velero_plugin::item::{object_mut, text};

use crate::objects::identity;

/// How much of a random number makes the label of a volume its own.
const RANDOM_LENGTH: usize = 5;

/// The operation of the download for a claim: there is one in a restore.
fn operation(restore: &Restore, claim_from_backup: &Value) -> String {
    labels::valid_value(&format!("{DOWNLOAD_OPERATION}{}.{}", uid(restore), text(claim_from_backup, "/metadata/uid")))
}

/// The DataDownload for a claim that goes into a namespace; and its operation.
pub(crate) fn new_download(
    claim_from_backup: &Value,
    target: &str,
    result: &DataUploadResult,
    backup: &Backup,
    restore: &Restore,
) -> (DataDownload, String) {
    let operation = operation(restore, claim_from_backup);
    let download = DataDownload {
        metadata: ObjectMeta {
            namespace: Some(namespace(restore).to_owned()),
            generate_name: Some(format!("{}-", name(restore))),
            owner_references: restore.controller_owner_ref(&()).map(|owner| vec![owner]),
            labels: Some(BTreeMap::from([
                (labels::RESTORE_NAME.to_owned(), labels::valid_value(name(restore))),
                (labels::RESTORE_UID.to_owned(), uid(restore).to_owned()),
                (labels::ASYNC_OPERATION_ID.to_owned(), operation.clone()),
            ])),
            ..ObjectMeta::default()
        },
        spec: DataDownloadSpec {
            target_volume: TargetVolumeSpec {
                pvc: identity(claim_from_backup).1.to_owned(),
                namespace: target.to_owned(),
                ..TargetVolumeSpec::default()
            },
            backup_storage_location: result.backup_storage_location.clone(),
            data_mover: result.data_mover.clone(),
            snapshot_id: result.snapshot_id.clone(),
            source_namespace: result.source_namespace.clone(),
            data_mover_config: restore.spec.uploader_config.as_ref().map(settings).unwrap_or_default(),
            operation_timeout: backup.spec.csi_snapshot_timeout,
            node_os: result.node_os.clone(),
            snapshot_size: result.snapshot_size,
            ..DataDownloadSpec::default()
        },
        ..DataDownload::default()
    };
    (download, operation)
}

fn settings(config: &UploaderConfigForRestore) -> BTreeMap<String, String> {
    let sparse = config.write_sparse_files.unwrap_or_default().to_string();
    let mut settings = BTreeMap::from([(WRITE_SPARSE_FILES.to_owned(), sparse)]);
    if config.parallel_files_download > 0 {
        settings.insert(PARALLEL_FILES_DOWNLOAD.to_owned(), config.parallel_files_download.to_string());
    }
    settings
}

/// Lets a claim without a volume wait for the one that the data mover fills: nothing else fits its selector.
pub(crate) fn waiting_for_download(claim: &mut Value, target: &str) {
    let random: String = uuid::Uuid::new_v4().simple().to_string().chars().take(RANDOM_LENGTH).collect();
    let mark = labels::valid_value(&format!("{target}.{}.{random}", identity(claim).1));
    let Some(spec) = object_mut(claim, "/spec") else {
        return;
    };
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if !selector.is_object() {
        *selector = json!({});
    }
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    selector["matchLabels"][labels::DYNAMIC_PV_RESTORE] = mark.into();
}

#[cfg(test)]
mod tests {
    use velero_api::v2alpha1::NodeOs;

    use super::*;

    fn restore() -> Restore {
        let mut restore = Restore::new("velero", "back", Default::default());
        restore.metadata.uid = Some("e5d8c6a2-0000-0000-0000-000000000001".to_owned());
        restore
    }

    fn claim() -> Value {
        json!({"metadata": {"namespace": "shop", "name": "data", "uid": "c1a1c1a1-0000-0000-0000-000000000002"}})
    }

    #[test]
    fn a_download_is_what_velero_writes() {
        let mut backup = Backup::new("velero", "nightly", Default::default());
        backup.spec.csi_snapshot_timeout = velero_api::GoDuration::from_mins(10);
        let mut result = DataUploadResult {
            backup_storage_location: "default".to_owned(),
            snapshot_id: "k1".to_owned(),
            source_namespace: "shop".to_owned(),
            ..DataUploadResult::default()
        };
        let mut restore = restore();
        let operation = operation(&restore, &claim());
        let mut expected = json!({
            "apiVersion": "velero.io/v2alpha1",
            "kind": "DataDownload",
            "metadata": {
                "namespace": "velero",
                "generateName": "back-",
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "back",
                    "uid": "e5d8c6a2-0000-0000-0000-000000000001", "controller": true}],
                "labels": {
                    "velero.io/restore-name": "back",
                    "velero.io/restore-uid": "e5d8c6a2-0000-0000-0000-000000000001",
                    "velero.io/async-operation-id": operation,
                },
            },
            "spec": {
                "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop-2"},
                "backupStorageLocation": "default",
                "snapshotID": "k1",
                "sourceNamespace": "shop",
                "operationTimeout": "10m0s",
            },
            "status": {"progress": {}},
        });
        let written = |result: &DataUploadResult, restore: &Restore| {
            let (download, id) = new_download(&claim(), "shop-2", result, &backup, restore);
            assert_eq!(id, operation);
            serde_json::to_value(download).unwrap()
        };
        assert_eq!(written(&result, &restore), expected);
        result.data_mover = "vendor".to_owned();
        (result.node_os, result.snapshot_size) = (Some(NodeOs::Linux), 4096);
        restore.spec.uploader_config =
            Some(UploaderConfigForRestore { parallel_files_download: 8, ..UploaderConfigForRestore::default() });
        let spec = expected["spec"].as_object_mut().unwrap();
        spec.extend([
            ("datamover".to_owned(), json!("vendor")),
            ("nodeOS".to_owned(), json!("linux")),
            ("snapshotSize".to_owned(), json!(4096)),
            ("dataMoverConfig".to_owned(), json!({"WriteSparseFiles": "false", "ParallelFilesDownload": "8"})),
        ]);
        assert_eq!(written(&result, &restore), expected);
    }

    #[test]
    fn an_operation_is_known_by_restore_and_claim() {
        let id = operation(&restore(), &claim());
        assert!(id.starts_with("dd-e5d8c6a2-0000-0000-0000-000000000001.") && id.len() == 63, "{id}");
    }

    #[test]
    fn a_claim_waits_for_no_other_volume() {
        let mut claim = json!({"metadata": {"name": "data"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}});
        waiting_for_download(&mut claim, "shop-2");
        let labels = &claim["spec"]["selector"]["matchLabels"];
        assert_eq!(labels["a"], "b");
        let mark = labels["velero.io/dynamic-pv-restore"].as_str().unwrap();
        assert!(mark.starts_with("shop-2.data.") && mark.len() == "shop-2.data.".len() + 5, "{mark}");
        for selector in [json!(null), json!({"matchLabels": null})] {
            let mut claim = json!({"metadata": {"name": "data"}, "spec": {"selector": selector}});
            waiting_for_download(&mut claim, "shop-2");
            assert!(claim["spec"]["selector"]["matchLabels"]["velero.io/dynamic-pv-restore"].is_string());
        }
    }
}
