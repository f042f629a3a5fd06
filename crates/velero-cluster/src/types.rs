//! Types that every cluster serves, or every one with Velero or with CSI snapshots, for those who need no discovery.

use std::sync::LazyLock;

use crate::resource_type::ResourceType;

macro_rules! types {
    ($($(#[$doc:meta])+ $name:ident: $api_version:literal $kind:literal $plural:literal $namespaced:literal,)+) => {
        $($(#[$doc])+
        pub static $name: LazyLock<ResourceType> =
            LazyLock::new(|| ResourceType::new($api_version, $kind, $plural, $namespaced));)+
    };
}

types! {
    /// ConfigMaps.
    CONFIG_MAPS: "v1" "ConfigMap" "configmaps" true,
    /// CustomResourceDefinitions.
    CUSTOM_RESOURCE_DEFINITIONS: "apiextensions.k8s.io/v1" "CustomResourceDefinition" "customresourcedefinitions" false,
    /// DataDownloads.
    DATA_DOWNLOADS: "velero.io/v2alpha1" "DataDownload" "datadownloads" true,
    /// DataUploads.
    DATA_UPLOADS: "velero.io/v2alpha1" "DataUpload" "datauploads" true,
    /// Deployments.
    DEPLOYMENTS: "apps/v1" "Deployment" "deployments" true,
    /// Namespaces.
    NAMESPACES: "v1" "Namespace" "namespaces" false,
    /// PersistentVolumes.
    PERSISTENT_VOLUMES: "v1" "PersistentVolume" "persistentvolumes" false,
    /// PersistentVolumeClaims.
    PERSISTENT_VOLUME_CLAIMS: "v1" "PersistentVolumeClaim" "persistentvolumeclaims" true,
    /// Pods.
    PODS: "v1" "Pod" "pods" true,
    /// PodVolumeBackups.
    POD_VOLUME_BACKUPS: "velero.io/v1" "PodVolumeBackup" "podvolumebackups" true,
    /// PodVolumeRestores.
    POD_VOLUME_RESTORES: "velero.io/v1" "PodVolumeRestore" "podvolumerestores" true,
    /// Secrets.
    SECRETS: "v1" "Secret" "secrets" true,
    /// ServiceAccounts.
    SERVICE_ACCOUNTS: "v1" "ServiceAccount" "serviceaccounts" true,
    /// StorageClasses.
    STORAGE_CLASSES: "storage.k8s.io/v1" "StorageClass" "storageclasses" false,
    /// VolumeSnapshots.
    VOLUME_SNAPSHOTS: "snapshot.storage.k8s.io/v1" "VolumeSnapshot" "volumesnapshots" true,
    /// VolumeSnapshotContents.
    VOLUME_SNAPSHOT_CONTENTS: "snapshot.storage.k8s.io/v1" "VolumeSnapshotContent" "volumesnapshotcontents" false,
}
