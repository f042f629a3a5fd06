//! Annotations Velero writes or reads.

/// On a Backup or Restore: how long pod volume transfers may take.
pub const POD_VOLUME_TIMEOUT: &str = "velero.io/pod-volume-timeout";
/// On a Backup: the version of the cluster, as in `v1.35.4`.
pub const SOURCE_CLUSTER_GIT_VERSION: &str = "velero.io/source-cluster-k8s-gitversion";
/// On a Backup: the major number of the cluster's version.
pub const SOURCE_CLUSTER_MAJOR_VERSION: &str = "velero.io/source-cluster-k8s-major-version";
/// On a Backup: the minor number of the cluster's version.
pub const SOURCE_CLUSTER_MINOR_VERSION: &str = "velero.io/source-cluster-k8s-minor-version";
/// On a Backup: which cluster made it, by the UID of its namespace `kube-system`.
pub const SOURCE_CLUSTER_UID: &str = "velero.io/source-cluster-uid";
/// On a Backup: how long plugins may wait for a resource.
pub const RESOURCE_TIMEOUT: &str = "velero.io/resource-timeout";
/// Which server works on a backup or restore that is InProgress. It goes with that phase.
pub const HOLDER_IDENTITY: &str = "velero.io/holder-identity";
/// The pods of a backup in which hooks ran before and those that follow are still owed, as a JSON list.
pub const OWED_HOOKS: &str = "velero.io/owed-hooks";
/// On a Backup: the ConfigMap with the volume policies of the whole cluster that took part.
pub const GLOBAL_BACKUP_VOLUME_POLICY_CONFIG_MAP: &str = "velero.io/global-backup-volume-policy-configmap";

/// On a Backup or Restore that has ended: what its run left behind, until that is cleaned up.
pub const CLEAN_UP_OWED: &str = "velero.io/clean-up-owed";
/// On a Backup or Restore: somebody wants it to end before it is done. The value is a time or the words of who asks;
/// `false` asks for nothing.
pub const CANCEL_REQUESTED: &str = "velero.io/cancel-requested";
/// On a Backup: whether it is taken again should its server be interrupted, `true` or `false`. Without it, those of
/// schedules are.
pub const RETRY_INTERRUPTED: &str = "velero.io/retry-interrupted";
/// On a Failed Backup whose server was interrupted: the name under which it is to be taken again, until it is.
pub const RETRY_OWED: &str = "velero.io/retry-owed";
/// On a Backup that runs and would be taken again, and on such a Backup, as older servers wrote it: its whole spec as it was
/// written, before the server completed it. Now it is `velero.io/asked-fields`.
pub const ASKED_SPEC: &str = "velero.io/asked-spec";
/// On such a Backup: the Backup that was made in its place.
pub const RETRIED_AS: &str = "velero.io/retried-as";
/// On a Backup that was made in the place of another: the name of that one.
pub const RETRY_OF: &str = "velero.io/retry-of";
/// On such a Backup: which try it is, 1 for the first.
pub const RETRY_NUMBER: &str = "velero.io/retry-number";
/// On a Backup that a schedule made because one was due: the UID of the schedule. One that somebody made from the schedule has
/// none.
pub const SCHEDULED_BY: &str = "velero.io/scheduled-by";
/// On a Restore: the name of the Restore it goes on with, which was interrupted or ended with errors.
pub const RESUME_OF: &str = "velero.io/resume-of";
/// On a Restore that is not Completed, and on a Backup that runs and would be taken again: the fields of its spec that the
/// server completed, as they were asked for, as a JSON object; `null` is a field that was not given, a number how many
/// entries of a list were.
pub const ASKED_FIELDS: &str = "velero.io/asked-fields";
/// On a Restore whose own work is done: what it still waits for, `hooks` and `volumes`.
pub const AWAITED: &str = "velero.io/awaited";
/// On a Restore: it is only to be looked at; the name of the restore it would be. What acts on items of such a restore
/// says what it would make of them and does nothing besides.
pub const DRY_RUN: &str = "velero.io/dry-run";
/// On such a Restore: the version of the server that answers it.
pub const DRY_RUN_SERVER: &str = "velero.io/dry-run-server";

/// What a server notes on a Backup for itself or the next one. On a Backup that comes out of a bucket it means nothing.
pub const OF_THE_SERVER: [&str; 6] =
    [HOLDER_IDENTITY, OWED_HOOKS, CLEAN_UP_OWED, RETRY_OWED, CANCEL_REQUESTED, SCHEDULED_BY];

/// On a pod: volumes to back up through the file system, comma separated.
pub const VOLUMES_TO_BACKUP: &str = "backup.velero.io/backup-volumes";
/// On a pod: volumes not to back up through the file system, comma separated.
pub const VOLUMES_TO_EXCLUDE: &str = "backup.velero.io/backup-volumes-excludes";
/// On a pod, followed by the volume name: a snapshot in a repository, as older versions wrote it.
pub const POD_SNAPSHOT_PREFIX: &str = "snapshot.velero.io/";

/// Set by a backup action on an item: leave it out, whatever else says it must be included.
pub const SKIP_FROM_BACKUP: &str = "velero.io/skip-from-backup";
/// Set by a backup action on an item, `true`: filters do not apply to its additional items.
pub const MUST_INCLUDE_ADDITIONAL_ITEMS: &str = "backup.velero.io/must-include-additional-items";
/// Set by a restore action on an item, `true`: filters do not apply to its additional items.
pub const MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE: &str = "restore.velero.io/must-include-additional-items";
/// `true` on a PersistentVolumeClaim whose volume no CSI driver provisioned.
pub const SKIPPED_NO_CSI_PV: &str = "backup.velero.io/skipped-no-csi-pv";

/// On a VolumeSnapshot: the snapshot as the storage system names it.
pub const VOLUME_SNAPSHOT_HANDLE: &str = "velero.io/csi-volumesnapshot-handle";
/// On a VolumeSnapshot: the size of a volume restored from it.
pub const VOLUME_SNAPSHOT_RESTORE_SIZE: &str = "velero.io/csi-volumesnapshot-restore-size";
/// On a VolumeSnapshot: the CSI driver.
pub const CSI_DRIVER_NAME: &str = "velero.io/csi-driver-name";
/// On a VolumeSnapshot: the deletion policy of its content.
pub const VOLUME_SNAPSHOT_CONTENT_DELETION_POLICY: &str = "velero.io/csi-vsc-deletion-policy";
/// On a VolumeSnapshot: the group snapshot as the storage system names it.
pub const VOLUME_GROUP_SNAPSHOT_HANDLE: &str = "velero.io/csi-volumegroupsnapshot-handle";
/// On a PersistentVolumeClaim: the VolumeSnapshotClass to use.
pub const VOLUME_SNAPSHOT_CLASS: &str = "velero.io/csi-volumesnapshot-class";
/// On a Backup, followed by the CSI driver: the VolumeSnapshotClass to use for it.
pub const VOLUME_SNAPSHOT_CLASS_OF_DRIVER_PREFIX: &str = "velero.io/csi-volumesnapshot-class_";
/// On a PersistentVolumeClaim: the VolumeGroupSnapshotClass to use.
pub const VOLUME_GROUP_SNAPSHOT_CLASS: &str = "velero.io/csi-volume-group-snapshot-class";
/// On a Backup, followed by the CSI driver: the VolumeGroupSnapshotClass to use for it.
pub const VOLUME_GROUP_SNAPSHOT_CLASS_OF_DRIVER_PREFIX: &str = "velero.io/csi-volumegroupsnapshot-class_";
/// `true` on the VolumeSnapshotClass that is Kubernetes' own default.
pub const DEFAULT_VOLUME_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// On a VolumeSnapshotContent: the Secret for the snapshotter.
pub const SNAPSHOTTER_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-secret-name";
/// On a VolumeSnapshotContent: the namespace of that Secret.
pub const SNAPSHOTTER_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";
/// On a VolumeSnapshotClass: the Secret for listing snapshots.
pub const SNAPSHOTTER_LIST_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-list-secret-name";
/// On a VolumeSnapshotClass: the namespace of that Secret.
pub const SNAPSHOTTER_LIST_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-list-secret-namespace";

/// On a PersistentVolumeClaim: `<namespace>/<name>` of its DataUpload.
pub const DATA_UPLOAD_NAME: &str = "velero.io/data-upload-name";
/// On a PersistentVolumeClaim: the VolumeSnapshot it is restored from.
pub const VOLUME_SNAPSHOT_NAME: &str = "velero.io/volume-snapshot-name";
/// On a PodVolumeBackup: the PersistentVolumeClaim behind the volume.
pub const PVC_NAME: &str = "velero.io/pvc-name";
/// On a restored PersistentVolume: its name in the backup.
pub const ORIGINAL_PV_NAME: &str = "velero.io/original-pv-name";
/// `true` or `false` on an object: whether its status is restored, whatever the restore says.
pub const RESTORE_STATUS: &str = "velero.io/restore-status";

/// Hooks around the backup of a pod, each also with the prefix `pre.` or `post.`; none means `pre.`.
pub mod backup_hook {
    /// The container to run the command in.
    pub const CONTAINER: &str = "hook.backup.velero.io/container";
    /// The command: a JSON list, or one word.
    pub const COMMAND: &str = "hook.backup.velero.io/command";
    /// What a failure means.
    pub const ON_ERROR: &str = "hook.backup.velero.io/on-error";
    /// How long the command may run.
    pub const TIMEOUT: &str = "hook.backup.velero.io/timeout";
    /// Puts a key before the backup of the pod.
    pub const PRE_PREFIX: &str = "pre.";
    /// Puts a key after the backup of the pod.
    pub const POST_PREFIX: &str = "post.";
}

/// Commands to run in a restored pod.
pub mod restore_exec_hook {
    /// The container to run the command in.
    pub const CONTAINER: &str = "post.hook.restore.velero.io/container";
    /// The command: a JSON list, or one word.
    pub const COMMAND: &str = "post.hook.restore.velero.io/command";
    /// What a failure means.
    pub const ON_ERROR: &str = "post.hook.restore.velero.io/on-error";
    /// How long the command may run.
    pub const EXEC_TIMEOUT: &str = "post.hook.restore.velero.io/exec-timeout";
    /// How long to wait for the container.
    pub const WAIT_TIMEOUT: &str = "post.hook.restore.velero.io/wait-timeout";
    /// Whether to wait until the container is ready.
    pub const WAIT_FOR_READY: &str = "post.hook.restore.velero.io/wait-for-ready";
}

/// Init containers to add to a restored pod.
pub mod restore_init_hook {
    /// The image of the container.
    pub const CONTAINER_IMAGE: &str = "init.hook.restore.velero.io/container-image";
    /// The name of the container.
    pub const CONTAINER_NAME: &str = "init.hook.restore.velero.io/container-name";
    /// The command: a JSON list, or one word.
    pub const COMMAND: &str = "init.hook.restore.velero.io/command";
    /// How long the container may take.
    pub const TIMEOUT: &str = "init.hook.restore.velero.io/timeout";
}
