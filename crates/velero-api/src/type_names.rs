//! Types as filters, archives, operations and records name them: the plural and its group, `resource.group`.
//!
//! Who asks the API server takes the types of `velero_cluster::types` instead, which know their version too.

/// CustomResourceDefinitions.
pub const CUSTOM_RESOURCE_DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// DataDownloads.
pub const DATA_DOWNLOADS: &str = "datadownloads.velero.io";
/// DataUploads.
pub const DATA_UPLOADS: &str = "datauploads.velero.io";
/// Namespaces.
pub const NAMESPACES: &str = "namespaces";
/// PersistentVolumeClaims.
pub const PERSISTENT_VOLUME_CLAIMS: &str = "persistentvolumeclaims";
/// PersistentVolumes.
pub const PERSISTENT_VOLUMES: &str = "persistentvolumes";
/// Pods.
pub const PODS: &str = "pods";
/// PodVolumeBackups.
pub const POD_VOLUME_BACKUPS: &str = "podvolumebackups.velero.io";
/// PodVolumeRestores.
pub const POD_VOLUME_RESTORES: &str = "podvolumerestores.velero.io";
/// VolumeSnapshots.
pub const VOLUME_SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
/// VolumeSnapshotClasses.
pub const VOLUME_SNAPSHOT_CLASSES: &str = "volumesnapshotclasses.snapshot.storage.k8s.io";
/// VolumeSnapshotContents.
pub const VOLUME_SNAPSHOT_CONTENTS: &str = "volumesnapshotcontents.snapshot.storage.k8s.io";
