//! Types that every cluster serves, for those who need no discovery.

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
    /// Namespaces.
    NAMESPACES: "v1" "Namespace" "namespaces" false,
    /// PersistentVolumes.
    PERSISTENT_VOLUMES: "v1" "PersistentVolume" "persistentvolumes" false,
    /// PersistentVolumeClaims.
    PERSISTENT_VOLUME_CLAIMS: "v1" "PersistentVolumeClaim" "persistentvolumeclaims" true,
    /// Pods.
    PODS: "v1" "Pod" "pods" true,
    /// Secrets.
    SECRETS: "v1" "Secret" "secrets" true,
    /// ServiceAccounts.
    SERVICE_ACCOUNTS: "v1" "ServiceAccount" "serviceaccounts" true,
    /// StorageClasses.
    STORAGE_CLASSES: "storage.k8s.io/v1" "StorageClass" "storageclasses" false,
}
