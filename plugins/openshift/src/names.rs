//! Annotations, labels and names that OpenShift, its migration tool and this plugin agree on.

/// Annotations of items.
pub(crate) mod annotations {
    pub(crate) const BACKUP_SERVER_VERSION: &str = "openshift.io/backup-server-version";
    pub(crate) const RESTORE_SERVER_VERSION: &str = "openshift.io/restore-server-version";
    pub(crate) const BACKUP_REGISTRY_HOSTNAME: &str = "openshift.io/backup-registry-hostname";
    pub(crate) const RESTORE_REGISTRY_HOSTNAME: &str = "openshift.io/restore-registry-hostname";
    /// Also on Backups and Restores of a migration.
    pub(crate) const MIGRATION_REGISTRY: &str = "openshift.io/migration-registry";
    pub(crate) const SKIP_IMAGE_COPY: &str = "openshift.io/skip-image-copy";
    /// In a backup, on a stream that had [`SKIP_IMAGE_COPY`] in the cluster: a restore keeps that.
    pub(crate) const SKIP_OF_USER: &str = "openshift.io/skip-image-copy-of-user";
    /// Also on Backups. On items the word of the Backup alone.
    pub(crate) const DISABLE_IMAGE_COPY: &str = "migration.openshift.io/disable-image-copy";
    /// `copy` or `move`.
    pub(crate) const MIGRATE_TYPE: &str = "openshift.io/migrate-type";
    pub(crate) const TARGET_STORAGE_CLASS: &str = "openshift.io/target-storage-class";
    pub(crate) const TARGET_ACCESS_MODE: &str = "openshift.io/target-access-mode";
    /// `snapshot` or `filesystem`.
    pub(crate) const COPY_METHOD: &str = "migration.openshift.io/copy-method";
    pub(crate) const ORIGINAL_RECLAIM_POLICY: &str = "migration.openshift.io/orig-reclaim-policy";
    pub(crate) const RELATED_TAG: &str = "migration.openshift.io/related-istag";
    pub(crate) const RELATED_TAG_NAMESPACE: &str = "migration.openshift.io/related-istag-ns";
    pub(crate) const EXCLUDE_VOLUMES: &str = "migration.openshift.io/exclude-pvcs";
    pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    pub(crate) const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    pub(crate) const HOST_GENERATED: &str = "openshift.io/host.generated";
    pub(crate) const ORIGINATING_SERVICE: &str = "service.alpha.openshift.io/originating-service-name";
    pub(crate) const BUILD_NAME: &str = "openshift.io/build.name";
    pub(crate) const PAUSED_OWNER: &str = "openshift.io/paused-owner-ref";
    pub(crate) const SKIP_BUILD_CONFIG_MAP: &str = "oadp.openshift.io/skip-buildconfig-configmap-restore";
    /// On pods and deployment configs of a backup that says what their pods need.
    pub(crate) const DISCONNECT_KNOWN: &str = "oadp.openshift.io/includes-dm-dc-fix";
    pub(crate) const HAS_POD_RESTORE_HOOKS: &str = "oadp.openshift.io/has-pod-restore-hooks";
    pub(crate) const PODS_HAVE_VOLUMES: &str = "oadp.openshift.io/pods-have-volumes";
    pub(crate) const POD_LABELS: &str = "oadp.openshift.io/pod-labels";
    pub(crate) const ORIGINAL_REPLICAS: &str = "oadp.openshift.io/original-replicas";
    pub(crate) const ORIGINAL_PAUSED: &str = "oadp.openshift.io/original-paused";
    /// On a pull secret: the service account it was made for (OpenShift 4.16 and later).
    pub(crate) const PULL_SECRET_ACCOUNT: &str = "openshift.io/internal-registry-auth-token.service-account";
    /// On a service account: its pull secret.
    pub(crate) const ACCOUNT_PULL_SECRET: &str = "openshift.io/internal-registry-pull-secret-ref";
    pub(crate) const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
    pub(crate) const SERVICE_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

    /// On a Restore: `stage` or `final`.
    pub(crate) const MIGRATION_TYPE: &str = "migration.openshift.io/migmigration-type";
    /// On a Restore: `stage` while data is copied; on pods of such a restore `true`.
    pub(crate) const COPY_PHASE: &str = "openshift.io/migrate-copy-phase";
    /// On a Restore: the image that pods of a stage run.
    pub(crate) const STAGE_POD_IMAGE: &str = "migration.openshift.io/stage-pod-image";
}

/// Labels.
pub(crate) mod labels {
    /// On a Backup or Restore: who it is part of.
    pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";
    /// The value of [`PART_OF`] that makes it part of a migration.
    pub(crate) const MIGRATION: &str = "openshift-migration";
    /// On a Restore of a stage.
    pub(crate) const STAGE_RESTORE: &str = "migration-stage-restore";
    pub(crate) const MIGRATED_BY_MIGRATION: &str = "migration.openshift.io/migrated-by-migmigration";
    pub(crate) const MIGRATED_BY_PLAN: &str = "migration.openshift.io/migrated-by-migplan";
    /// On pods that a backup takes for a stage.
    pub(crate) const STAGE_POD: &str = "migration-included-stage-backup";
    /// On pods that were restored for a stage.
    pub(crate) const RESTORED_STAGE_POD: &str = "migration-stage-pod";
    /// On pods of deployment configs.
    pub(crate) const DEPLOYMENT: &str = "deployment";
    pub(crate) const DEPLOYMENT_CONFIG: &str = "deploymentconfig";
    pub(crate) const DISCONNECTED: &str = "oadp.openshift.io/disconnected-from-dc";
    /// On deployment configs that were scaled down.
    pub(crate) const REPLICAS_MODIFIED: &str = "oadp.openshift.io/replicas-modified";
}

/// The value of a switch in annotations.
pub(crate) const TRUE: &str = "true";

/// The ConfigMap that says which route serves the registry of a storage location.
pub(crate) const OADP_REGISTRY_CONFIG: &str = "oadp-registry-config";

/// The group of image streams.
pub(crate) const IMAGE_GROUP: &str = "image.openshift.io";
