//! Labels Velero writes or reads.

use sha2::{Digest, Sha256};

/// The backup an object belongs to, by name.
pub const BACKUP_NAME: &str = "velero.io/backup-name";
/// The backup an object belongs to, by UID.
pub const BACKUP_UID: &str = "velero.io/backup-uid";
/// The restore an object belongs to, by name.
pub const RESTORE_NAME: &str = "velero.io/restore-name";
/// The restore an object belongs to, by UID.
pub const RESTORE_UID: &str = "velero.io/restore-uid";
/// The schedule a backup was made by.
pub const SCHEDULE_NAME: &str = "velero.io/schedule-name";
/// The BackupStorageLocation of a backup or repository.
pub const STORAGE_LOCATION: &str = "velero.io/storage-location";
/// The namespace whose volumes a repository holds.
pub const VOLUME_NAMESPACE: &str = "velero.io/volume-namespace";
/// The format of a repository.
pub const REPOSITORY_TYPE: &str = "velero.io/repository-type";
/// The repository a maintenance job works on.
pub const REPOSITORY_NAME: &str = "velero.io/repo-name";
/// The pod a PodVolumeRestore is for, by UID.
pub const POD_UID: &str = "velero.io/pod-uid";
/// The PersistentVolumeClaim a transfer is for, by UID.
pub const PVC_UID: &str = "velero.io/pvc-uid";
/// `true` keeps an object, or a whole namespace, out of every backup.
pub const EXCLUDE_FROM_BACKUP: &str = "velero.io/exclude-from-backup";
/// The asynchronous operation a transfer belongs to.
pub const ASYNC_OPERATION_ID: &str = "velero.io/async-operation-id";
/// The DataUpload a data mover pod works for.
pub const DATA_UPLOAD: &str = "velero.io/data-upload";
/// The DataDownload a data mover pod works for.
pub const DATA_DOWNLOAD: &str = "velero.io/data-download";
/// The PodVolumeBackup a data mover pod works for.
pub const POD_VOLUME_BACKUP: &str = "velero.io/pod-volume-backup";
/// The PodVolumeRestore a data mover pod works for.
pub const POD_VOLUME_RESTORE: &str = "velero.io/pod-volume-restore";
/// `true` on a ConfigMap that names a repository snapshot to forget.
pub const DATA_UPLOAD_SNAPSHOT_INFO: &str = "velero.io/data-upload-snapshot-info";
/// `<namespace>.<name>` of the PersistentVolumeClaim a DataUploadResult is for.
pub const PVC_NAMESPACE_NAME: &str = "velero.io/pvc-namespace-name";
/// What a ConfigMap is used for.
pub const RESOURCE_USAGE: &str = "velero.io/resource-usage";
/// The value of [`RESOURCE_USAGE`] on a ConfigMap in which a plugin keeps what it has to know of an operation. It goes when
/// the Backup or Restore that owns it has ended.
pub const RESOURCE_USAGE_OPERATION_RECORD: &str = "OperationRecord";
/// The value of [`RESOURCE_USAGE`] on a ConfigMap with a DataUploadResult.
pub const RESOURCE_USAGE_DATA_UPLOAD_RESULT: &str = "DataUpload";
/// `true` on a transfer that counts in the prepare queue.
pub const EXPOSE_ON_GOING: &str = "velero.io/expose-on-going";
/// Groups data mover pods for topology spread.
pub const EXPOSER_POD_GROUP: &str = "velero.io/exposer-pod-group";
/// The value of [`EXPOSER_POD_GROUP`] on pods that read a snapshot.
pub const EXPOSER_POD_GROUP_SNAPSHOT: &str = "snapshot-exposer";
/// The value of [`EXPOSER_POD_GROUP`] on pods that fill a volume.
pub const EXPOSER_POD_GROUP_GENERIC_RESTORE: &str = "generic-restore-exposer";
/// The VolumeSnapshot a PersistentVolumeClaim is restored from; an annotation of the same name exists.
pub const VOLUME_SNAPSHOT_NAME: &str = "velero.io/volume-snapshot-name";
/// Selects the volume the data mover fills.
pub const DYNAMIC_PV_RESTORE: &str = "velero.io/dynamic-pv-restore";
/// Groups PersistentVolumeClaims whose volumes are snapshotted together, unless another key is chosen.
pub const DEFAULT_VOLUME_GROUP: &str = "velero.io/volume-group";
/// On the VolumeSnapshotClass to use for its driver.
pub const VOLUME_SNAPSHOT_CLASS: &str = "velero.io/csi-volumesnapshot-class";
/// `true` on the VolumeGroupSnapshotClass to use for its driver.
pub const VOLUME_GROUP_SNAPSHOT_CLASS: &str = "velero.io/csi-volumegroupsnapshot-class";
/// Why garbage collection could not delete a backup.
pub const GC_FAILURE: &str = "velero.io/gc-failure";
/// On a ConfigMap with the settings of a plugin.
pub const PLUGIN_CONFIG: &str = "velero.io/plugin-config";
/// The key of `component=velero`, on everything an installation creates.
pub const COMPONENT: &str = "component";
/// The value of [`COMPONENT`].
pub const COMPONENT_VELERO: &str = "velero";

/// The longest value a label may have.
const MAX_LENGTH: usize = 63;
/// How much of the hash marks a shortened value.
const HASH_LENGTH: usize = 6;

/// A name as the value of a label: unchanged while it fits, else its beginning and six hexadecimal
/// digits of its SHA-256.
pub fn valid_value(name: &str) -> String {
    if name.len() <= MAX_LENGTH {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).take(HASH_LENGTH / 2).collect();
    // Names of Kubernetes objects are ASCII; any other text is cut where a character ends.
    let end = name.floor_char_boundary(MAX_LENGTH - HASH_LENGTH);
    format!("{}{hash}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_63_characters_is_kept() {
        let name = "a".repeat(63);
        assert_eq!(valid_value(&name), name);
    }

    #[test]
    fn a_longer_name_ends_in_its_hash() {
        let name = "this-is-a-very-long-backup-name-that-does-not-fit-into-a-label-value";
        let value = valid_value(name);
        assert_eq!(value, "this-is-a-very-long-backup-name-that-does-not-fit-into-a-132118");
    }

    #[test]
    fn two_long_names_with_the_same_beginning_differ() {
        let beginning = "b".repeat(70);
        assert_ne!(valid_value(&format!("{beginning}1")), valid_value(&format!("{beginning}2")));
    }

    #[test]
    fn a_text_of_wide_characters_is_not_cut_inside_one() {
        let value = valid_value(&"é".repeat(40));
        assert!(value.len() <= MAX_LENGTH);
        assert!(value.starts_with('é'));
    }
}
