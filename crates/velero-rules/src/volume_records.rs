//! What is known of the volumes of a backup, from all files that tell of them.

use velero_api::DataMovePhase;
use velero_api::annotations::PVC_NAME;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo, VolumeMethod, VolumeResult};
use velero_api::v1::PodVolumeBackup;

/// Adds the copies through pods that the file about volumes does not tell of: backups of before 1.13 have no such file.
/// An added one has no persistent volume, but the claim, if the volume was made of one.
pub fn with_pod_volume_backups(mut infos: Vec<BackupVolumeInfo>, copies: &[PodVolumeBackup]) -> Vec<BackupVolumeInfo> {
    for copy in copies {
        let info = info_of_copy(copy);
        let same = |known: &PodVolumeInfo, new: &PodVolumeInfo| {
            (&known.pod_namespace, &known.pod_name, &known.volume_name)
                == (&new.pod_namespace, &new.pod_name, &new.volume_name)
        };
        let is_known = infos.iter().any(|known| match (&known.pvb_info, &info.pvb_info) {
            (Some(known), Some(new)) => same(known, new),
            _ => false,
        });
        if !is_known {
            infos.push(info);
        }
    }
    infos
}

/// What the file about volumes says of a copy through a pod. The persistent volume is not known here.
pub fn info_of_copy(copy: &PodVolumeBackup) -> BackupVolumeInfo {
    let (spec, status) = (&copy.spec, &copy.status);
    let pod_namespace = spec.pod.namespace.clone().unwrap_or_default();
    let annotations = copy.metadata.annotations.as_ref();
    let claim = annotations.and_then(|annotations| annotations.get(PVC_NAME)).cloned().unwrap_or_default();
    let succeeded = *status.phase() == DataMovePhase::Completed;
    BackupVolumeInfo {
        pvc_namespace: if claim.is_empty() { String::new() } else { pod_namespace.clone() },
        pvc_name: claim,
        backup_method: Some(VolumeMethod::PodVolumeBackup),
        start_timestamp: status.start_timestamp.clone(),
        completion_timestamp: status.completion_timestamp.clone(),
        result: Some(if succeeded { VolumeResult::Succeeded } else { VolumeResult::Failed }),
        pvb_info: Some(PodVolumeInfo {
            snapshot_handle: status.snapshot_id.clone(),
            size: status.progress.total_bytes,
            incremental_size: status.incremental_bytes,
            uploader_type: spec.uploader_type.clone(),
            volume_name: spec.volume.clone(),
            pod_name: spec.pod.name.clone().unwrap_or_default(),
            pod_namespace,
            node_name: spec.node.clone(),
            phase: status.phase().to_string(),
            ..PodVolumeInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copy(pod: &str, volume: &str, claim: Option<&str>, phase: &str) -> PodVolumeBackup {
        let annotations = claim.map(|claim| json!({PVC_NAME: claim}));
        serde_json::from_value(json!({
            "apiVersion": "velero.io/v1",
            "kind": "PodVolumeBackup",
            "metadata": {"name": "b-1", "annotations": annotations},
            "spec": {"node": "n", "pod": {"kind": "Pod", "namespace": "shop", "name": pod}, "volume": volume,
                "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "restic"},
            "status": {"phase": phase, "snapshotID": "abc"},
        }))
        .unwrap()
    }

    #[test]
    fn copies_that_the_file_about_volumes_does_not_tell_of_are_added() {
        let copies = [copy("web", "data", Some("web-data"), "Completed"), copy("web", "cache", None, "Failed")];
        let found = with_pod_volume_backups(Vec::new(), &copies);
        let [data, cache] = &found[..] else { panic!("{found:?}") };
        assert_eq!((data.pvc_namespace.as_str(), data.pvc_name.as_str()), ("shop", "web-data"));
        assert_eq!(
            (data.backup_method.clone(), data.result.clone()),
            (Some(VolumeMethod::PodVolumeBackup), Some(VolumeResult::Succeeded))
        );
        assert_eq!((cache.pvc_namespace.as_str(), cache.pvc_name.as_str()), ("", ""));
        assert_eq!(cache.result, Some(VolumeResult::Failed));
        let pod = cache.pvb_info.as_ref().unwrap();
        assert_eq!(
            (pod.pod_namespace.as_str(), pod.pod_name.as_str(), pod.volume_name.as_str()),
            ("shop", "web", "cache")
        );
        assert_eq!(with_pod_volume_backups(found.clone(), &copies), found, "each is told of once");
    }
}
