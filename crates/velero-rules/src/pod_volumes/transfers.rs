//! The objects that ask for a copy of a volume, or for its way back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sha2::{Digest, Sha256};
use velero_api::metadata::{name, namespace, uid};
use velero_api::records::{PodVolumeInfo, RestoreVolumeInfo, VolumeMethod};
use velero_api::repository::KOPIA;
use velero_api::resource::VeleroResource;
use velero_api::uploader_settings::{PARALLEL_FILES_DOWNLOAD, PARALLEL_FILES_UPLOAD, WRITE_SPARSE_FILES};
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeBackupSpec, PodVolumeRestore, PodVolumeRestoreSpec, Restore};
use velero_api::{annotations, labels};

/// The letters that the API server makes names of.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters it puts behind the name it is given.
const SUFFIX: usize = 5;
/// How long that name may be: what is longer is cut.
const LONGEST_BASE: usize = 63 - SUFFIX;

/// A pod whose volumes are copied or filled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
}

impl RunningPod {
    fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// A volume that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedVolume<'a> {
    /// Its name in the pod.
    pub name: &'a str,
    /// The name and UID of the claim it is made of.
    pub claim: Option<(&'a str, &'a str)>,
}

/// A volume that is filled from a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilledVolume<'a> {
    /// The copy.
    pub copy: &'a PodVolumeInfo,
    /// The UID of the claim the volume is made of.
    pub claim_uid: Option<&'a str>,
    /// The location of the backup.
    pub location: &'a str,
}

/// The name of the object for a volume of a pod: of the form that the API server would choose, but the same each time it
/// is asked for. Another `attempt` gives another one, should the name be taken.
pub fn transfer_name(owner: &str, owner_uid: &str, pod_uid: &str, volume: &str, attempt: u32) -> String {
    let digest = Sha256::digest(format!("{owner_uid}/{pod_uid}/{volume}/{attempt}").as_bytes());
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    let suffix: String = digest.iter().take(SUFFIX).map(letter).collect();
    let base = format!("{owner}-");
    format!("{}{suffix}", &base[..base.floor_char_boundary(LONGEST_BASE)])
}

/// The PodVolumeBackup that asks for a copy of a volume.
pub fn pod_volume_backup(backup: &Backup, pod: &RunningPod, volume: CopiedVolume<'_>) -> PodVolumeBackup {
    let text = str::to_owned;
    let mut tags: BTreeMap<String, String> = [
        ("backup", name(backup)),
        ("backup-uid", uid(backup)),
        ("pod", &pod.name),
        ("pod-uid", &pod.uid),
        ("ns", &pod.namespace),
        ("volume", volume.name),
    ]
    .map(|(key, value)| (text(key), text(value)))
    .into();
    let mut marks: BTreeMap<String, String> =
        [(text(labels::BACKUP_NAME), labels::valid_value(name(backup))), (text(labels::BACKUP_UID), text(uid(backup)))]
            .into();
    let mut notes = None;
    if let Some((claim, claim_uid)) = volume.claim {
        tags.insert(text("pvc-uid"), text(claim_uid));
        marks.insert(text(labels::PVC_UID), text(claim_uid));
        notes = Some([(text(annotations::PVC_NAME), text(claim))].into());
    }
    let config = backup.spec.uploader_config.as_ref();
    let settings = config.map(|config| (text(PARALLEL_FILES_UPLOAD), config.parallel_files_upload.to_string()));
    let spec = PodVolumeBackupSpec {
        node: pod.node.clone(),
        pod: pod.reference(),
        volume: text(volume.name),
        backup_storage_location: backup.spec.storage_location.clone(),
        uploader_type: text(KOPIA),
        tags,
        uploader_settings: settings.into_iter().collect(),
        ..PodVolumeBackupSpec::default()
    };
    let own_name = transfer_name(name(backup), uid(backup), &pod.uid, volume.name, 0);
    let mut copy = PodVolumeBackup::new(namespace(backup), &own_name, spec);
    copy.metadata.generate_name = Some(format!("{}-", name(backup)));
    copy.metadata.owner_references = Some(vec![owner(backup)]);
    copy.metadata.labels = Some(marks);
    copy.metadata.annotations = notes;
    copy
}

/// The PodVolumeRestore that asks for a volume of a new pod to be filled.
pub fn pod_volume_restore(restore: &Restore, pod: &RunningPod, volume: FilledVolume<'_>) -> PodVolumeRestore {
    let text = str::to_owned;
    let mut marks: BTreeMap<String, String> = [
        (text(labels::RESTORE_NAME), labels::valid_value(name(restore))),
        (text(labels::RESTORE_UID), text(uid(restore))),
        (text(labels::POD_UID), pod.uid.clone()),
    ]
    .into();
    if let Some(claim_uid) = volume.claim_uid {
        marks.insert(text(labels::PVC_UID), text(claim_uid));
    }
    let mut settings = BTreeMap::new();
    if let Some(config) = &restore.spec.uploader_config {
        let sparse = config.write_sparse_files == Some(true);
        settings.insert(text(WRITE_SPARSE_FILES), sparse.to_string());
        if config.parallel_files_download > 0 {
            settings.insert(text(PARALLEL_FILES_DOWNLOAD), config.parallel_files_download.to_string());
        }
    }
    let spec = PodVolumeRestoreSpec {
        pod: pod.reference(),
        volume: volume.copy.volume_name.clone(),
        backup_storage_location: text(volume.location),
        uploader_type: text(KOPIA),
        snapshot_id: volume.copy.snapshot_handle.clone(),
        source_namespace: volume.copy.pod_namespace.clone(),
        uploader_settings: settings,
        snapshot_size: volume.copy.size,
        ..PodVolumeRestoreSpec::default()
    };
    let own_name = transfer_name(name(restore), uid(restore), &pod.uid, &volume.copy.volume_name, 0);
    let mut filling = PodVolumeRestore::new(namespace(restore), &own_name, spec);
    filling.metadata.generate_name = Some(format!("{}-", name(restore)));
    filling.metadata.owner_references = Some(vec![owner(restore)]);
    filling.metadata.labels = Some(marks);
    filling
}

/// Lets a filling serve a pod that an earlier restore made: the pod waits for the word of that one, and node agents give it in
/// the name of the first owner.
pub fn fill_for_earlier(filling: &mut PodVolumeRestore, earlier_name: &str, earlier_uid: &str) {
    let owners = filling.metadata.owner_references.get_or_insert_default();
    for owner in owners.iter_mut() {
        // An object has one controller at most.
        owner.controller = None;
    }
    let earlier = OwnerReference {
        api_version: Restore::api_version_text(),
        kind: Restore::KIND.to_owned(),
        name: earlier_name.to_owned(),
        uid: earlier_uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    owners.insert(0, earlier);
}

/// What the files of a restore say of a volume that was filled from a copy.
pub fn volume_restore_info(filling: &PodVolumeRestore, claim: Option<&str>) -> RestoreVolumeInfo {
    let (spec, pod) = (&filling.spec, &filling.spec.pod);
    let pod_namespace = pod.namespace.clone().unwrap_or_default();
    RestoreVolumeInfo {
        pvc_name: claim.unwrap_or_default().to_owned(),
        pvc_namespace: claim.map(|_| pod_namespace.clone()).unwrap_or_default(),
        restore_method: Some(VolumeMethod::PodVolumeRestore),
        pvr_info: Some(PodVolumeInfo {
            snapshot_handle: spec.snapshot_id.clone(),
            size: filling.status.progress.total_bytes,
            uploader_type: spec.uploader_type.clone(),
            volume_name: spec.volume.clone(),
            pod_name: pod.name.clone().unwrap_or_default(),
            pod_namespace,
            ..PodVolumeInfo::default()
        }),
        ..RestoreVolumeInfo::default()
    }
}

fn owner<K: VeleroResource>(object: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version_text(),
        kind: K::KIND.to_owned(),
        name: name(object).to_owned(),
        uid: uid(object).to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}
