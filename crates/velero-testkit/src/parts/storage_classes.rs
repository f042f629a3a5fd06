//! The classes of the box: every claim gets a volume, every volume can have snapshots, and Velero finds the classes.

use anyhow::Result;
use serde_json::json;
use velero_csi_driver::DRIVER_NAME;

use super::Part;
use crate::machine::Machine;

/// The StorageClass of claims that name none.
pub const STORAGE_CLASS: &str = "box";
/// The VolumeSnapshotClass that Velero finds.
pub const SNAPSHOT_CLASS: &str = "box";
/// The VolumeGroupSnapshotClass that Velero finds.
pub const GROUP_SNAPSHOT_CLASS: &str = "box";

/// Tells Kubernetes of the driver and of the classes that use it.
pub struct StorageClasses;

impl Part for StorageClasses {
    fn name(&self) -> &'static str {
        "storage-classes"
    }

    fn install(&self) -> Result<()> {
        Ok(())
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let items = json!([
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": DRIVER_NAME},
                "spec": {"attachRequired": false, "podInfoOnMount": false, "fsGroupPolicy": "File"},
            },
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": STORAGE_CLASS,
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": DRIVER_NAME,
            },
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshotClass",
                "metadata": {"name": SNAPSHOT_CLASS, "labels": {"velero.io/csi-volumesnapshot-class": "true"}},
                "driver": DRIVER_NAME,
                "deletionPolicy": "Delete",
            },
            {
                "apiVersion": "groupsnapshot.storage.k8s.io/v1beta2",
                "kind": "VolumeGroupSnapshotClass",
                "metadata": {
                    "name": GROUP_SNAPSHOT_CLASS,
                    "labels": {"velero.io/csi-volumegroupsnapshot-class": "true"},
                },
                "driver": DRIVER_NAME,
                "deletionPolicy": "Delete",
            },
        ]);
        machine.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        machine.read(&format!("/apis/storage.k8s.io/v1/storageclasses/{STORAGE_CLASS}")).map(drop)
    }
}
