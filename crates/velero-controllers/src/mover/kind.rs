//! The four kinds of objects that ask for a transfer. Pure.

use std::collections::BTreeMap;

use velero_api::metadata::{annotation, label, name};
use velero_api::resource::VeleroResource;
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore, Restore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{DataMovePhase, annotations, labels, repository};
use velero_repo::upload::SnapshotRequest;

use crate::mover::plan::{Plan, UploaderSettings, Work};
use crate::runtime::error::{Error, Result};

/// Who asks for copies through pods, in the names of snapshots.
const POD_VOLUME: &str = "snapshot-pod-volume";
/// Who asks for moved snapshots.
const DATA_MOVEMENT: &str = "snapshot-data-upload-download";
/// What saved volumes before kopia did.
const RESTIC: &str = "restic";

/// A kind that asks for a transfer.
pub(super) trait Transferred: VeleroResource {
    /// Where it is in its life.
    fn phase(&self) -> &DataMovePhase;
    /// Whether it is to be cancelled.
    fn is_cancelled(&self) -> bool;
    /// What it asks for.
    fn plan(&self) -> Result<Plan>;
}

impl Transferred for PodVolumeBackup {
    fn phase(&self) -> &DataMovePhase {
        self.status.phase()
    }

    fn is_cancelled(&self) -> bool {
        self.spec.cancel
    }

    fn plan(&self) -> Result<Plan> {
        let spec = &self.spec;
        check_uploader::<Self>(name(self), &spec.uploader_type, true)?;
        let (namespace, pod) = pod_names(&spec.pod);
        let source = match annotation(self, annotations::PVC_NAME) {
            "" => spec.volume.as_str(),
            claim => claim,
        };
        let settings = settings(self, "spec.uploaderSettings", &spec.uploader_settings);
        let source = format!("{namespace}/{pod}/{source}");
        let request = SnapshotRequest::of_velero(POD_VOLUME, &source, spec.tags.clone());
        Ok(Plan {
            volume: format!("volume {:?} of pod \"{namespace}/{pod}\"", spec.volume),
            location: spec.backup_storage_location.clone(),
            volume_namespace: namespace.to_owned(),
            work: Work::Backup { request, parallel: settings.parallel_upload()? },
        })
    }
}

impl Transferred for PodVolumeRestore {
    fn phase(&self) -> &DataMovePhase {
        self.status.phase()
    }

    fn is_cancelled(&self) -> bool {
        self.spec.cancel
    }

    fn plan(&self) -> Result<Plan> {
        let spec = &self.spec;
        check_uploader::<Self>(name(self), &spec.uploader_type, false)?;
        let (namespace, pod) = pod_names(&spec.pod);
        let owners = self.metadata.owner_references.iter().flatten();
        // As Velero has it, the first; a restore before others, should somebody have put one in front.
        let owner = owners.clone().find(|owner| owner.kind == Restore::KIND).or_else(|| owners.clone().next());
        let owner = owner.ok_or_else(|| {
            let problem =
                "metadata.ownerReferences names no restore, so the pod that waits for its volume cannot be told";
            Error::invalid(Self::KIND, name(self), problem)
        })?;
        let settings = settings(self, "spec.uploaderSettings", &spec.uploader_settings);
        Ok(Plan {
            volume: format!("volume {:?} of pod \"{namespace}/{pod}\"", spec.volume),
            location: spec.backup_storage_location.clone(),
            volume_namespace: spec.source_namespace.clone(),
            work: Work::Restore {
                snapshot: spec.snapshot_id.clone(),
                parallel: settings.parallel_download()?,
                sparse: settings.sparse()?,
                waiting_restore: Some(owner.uid.clone()),
            },
        })
    }
}

impl Transferred for DataUpload {
    fn phase(&self) -> &DataMovePhase {
        self.status.phase()
    }

    fn is_cancelled(&self) -> bool {
        self.spec.cancel
    }

    fn plan(&self) -> Result<Plan> {
        let spec = &self.spec;
        let source = format!("{}/{}", spec.source_namespace, spec.source_pvc);
        let operation = label(self, labels::ASYNC_OPERATION_ID);
        let tags = [(labels::ASYNC_OPERATION_ID, operation)].into_iter().filter(|(_, operation)| !operation.is_empty());
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let settings = settings(self, "spec.dataMoverConfig", &spec.data_mover_config);
        Ok(Plan {
            volume: format!("the snapshot of claim {source:?}"),
            location: spec.backup_storage_location.clone(),
            volume_namespace: spec.source_namespace.clone(),
            work: Work::Backup {
                request: SnapshotRequest::of_velero(DATA_MOVEMENT, &source, tags),
                parallel: settings.parallel_upload()?,
            },
        })
    }
}

impl Transferred for DataDownload {
    fn phase(&self) -> &DataMovePhase {
        self.status.phase()
    }

    fn is_cancelled(&self) -> bool {
        self.spec.cancel
    }

    fn plan(&self) -> Result<Plan> {
        let spec = &self.spec;
        let target = &spec.target_volume;
        let settings = settings(self, "spec.dataMoverConfig", &spec.data_mover_config);
        Ok(Plan {
            volume: format!("the volume of claim \"{}/{}\"", target.namespace, target.pvc),
            location: spec.backup_storage_location.clone(),
            volume_namespace: spec.source_namespace.clone(),
            work: Work::Restore {
                snapshot: spec.snapshot_id.clone(),
                parallel: settings.parallel_download()?,
                sparse: settings.sparse()?,
                waiting_restore: None,
            },
        })
    }
}

fn settings<'a, K: VeleroResource>(
    object: &'a K,
    field: &'a str,
    values: &'a BTreeMap<String, String>,
) -> UploaderSettings<'a> {
    UploaderSettings { kind: K::KIND, name: name(object), field, values }
}

fn pod_names(pod: &k8s_openapi::api::core::v1::ObjectReference) -> (&str, &str) {
    (pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default())
}

/// Refuses what is not kopia's. A backup that names no uploader is made with kopia; data without one was saved by restic.
fn check_uploader<K: VeleroResource>(name: &str, uploader: &str, none_is_kopia: bool) -> Result<()> {
    let problem = match uploader {
        repository::KOPIA => return Ok(()),
        "" if none_is_kopia => return Ok(()),
        "" | RESTIC => format!(
            "its data is that of restic (spec.uploaderType {uploader:?}), and restic repositories are not read here; \
             restore this backup with Velero 1.18 or older, whose image brings restic"
        ),
        other => format!("spec.uploaderType is {other:?}, and only {:?} is known", repository::KOPIA),
    };
    Err(Error::invalid(K::KIND, name, problem))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use velero_api::v1::{PodVolumeBackupSpec, PodVolumeRestoreSpec};
    use velero_api::v2alpha1::{DataDownloadSpec, DataUploadSpec, TargetVolumeSpec};

    use super::*;

    fn pod() -> ObjectReference {
        ObjectReference { namespace: Some("shop".to_owned()), name: Some("web-0".to_owned()), ..Default::default() }
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn pod_volume_backup() -> PodVolumeBackup {
        let spec = PodVolumeBackupSpec {
            pod: pod(),
            volume: "data".to_owned(),
            backup_storage_location: "default".to_owned(),
            uploader_type: "kopia".to_owned(),
            tags: pairs(&[("backup", "nightly")]),
            uploader_settings: pairs(&[("ParallelFilesUpload", "3")]),
            ..Default::default()
        };
        PodVolumeBackup::new("velero", "nightly-x", spec)
    }

    #[test]
    fn a_pod_volume_is_saved_under_the_names_velero_gives_it() {
        let mut object = pod_volume_backup();
        let plan = object.plan().unwrap();
        assert_eq!(plan.volume, r#"volume "data" of pod "shop/web-0""#);
        assert_eq!((plan.location.as_str(), plan.volume_namespace.as_str()), ("default", "shop"));
        let Work::Backup { request, parallel } = plan.work else { panic!("a backup") };
        assert_eq!((request.path.as_str(), parallel), ("snapshot-pod-volume/kopia/shop/web-0/data", Some(3)));
        let tags = pairs(&[
            ("backup", "nightly"),
            ("snapshot-requester", "snapshot-pod-volume"),
            ("snapshot-uploader", "kopia"),
        ]);
        assert_eq!(request.tags, tags);
        object.metadata.annotations = Some(pairs(&[("velero.io/pvc-name", "claim-1")]));
        let Work::Backup { request, .. } = object.plan().unwrap().work else { panic!("a backup") };
        assert_eq!(request.path, "snapshot-pod-volume/kopia/shop/web-0/claim-1");
    }

    #[test]
    fn a_moved_snapshot_is_saved_by_its_claim_and_tagged_with_its_operation() {
        let spec =
            DataUploadSpec { source_namespace: "shop".to_owned(), source_pvc: "data".to_owned(), ..Default::default() };
        let mut object = DataUpload::new("velero", "du-1", spec);
        object.metadata.labels = Some(pairs(&[("velero.io/async-operation-id", "du-7")]));
        let Work::Backup { request, .. } = object.plan().unwrap().work else { panic!("a backup") };
        assert_eq!(request.path, "snapshot-data-upload-download/kopia/shop/data");
        assert_eq!(request.tags["velero.io/async-operation-id"], "du-7");
    }

    #[test]
    fn a_restore_knows_its_snapshot_and_who_waits() {
        let spec = PodVolumeRestoreSpec {
            pod: pod(),
            volume: "data".to_owned(),
            uploader_type: "kopia".to_owned(),
            snapshot_id: "s1".to_owned(),
            source_namespace: "old".to_owned(),
            uploader_settings: pairs(&[("WriteSparseFiles", "true"), ("ParallelFilesDownload", "2")]),
            ..Default::default()
        };
        let mut object = PodVolumeRestore::new("velero", "r-x", spec);
        let error = object.plan().unwrap_err().to_string();
        assert!(error.contains("metadata.ownerReferences"), "{error}");
        let owner = |kind: &str, uid: &str| {
            let (kind, uid) = (kind.to_owned(), uid.to_owned());
            OwnerReference { kind, uid, ..Default::default() }
        };
        object.metadata.owner_references = Some(vec![owner("Other", "u0"), owner("Restore", "u1")]);
        let plan = object.plan().unwrap();
        assert_eq!(plan.volume_namespace, "old");
        let Work::Restore { snapshot, parallel, sparse, waiting_restore } = plan.work else { panic!("a restore") };
        assert_eq!(
            (snapshot.as_str(), parallel, sparse, waiting_restore.as_deref()),
            ("s1", Some(2), true, Some("u1"))
        );
        let target = TargetVolumeSpec { namespace: "shop".to_owned(), pvc: "data".to_owned(), ..Default::default() };
        let spec = DataDownloadSpec { target_volume: target, snapshot_id: "s2".to_owned(), ..Default::default() };
        let plan = DataDownload::new("velero", "dd-1", spec).plan().unwrap();
        assert_eq!(plan.volume, r#"the volume of claim "shop/data""#);
        assert!(matches!(plan.work, Work::Restore { waiting_restore: None, .. }));
    }

    #[test]
    fn data_of_restic_is_refused_with_the_remedy() {
        let restore = |uploader: &str| {
            let spec = PodVolumeRestoreSpec { uploader_type: uploader.to_owned(), ..Default::default() };
            PodVolumeRestore::new("velero", "r-x", spec).plan().unwrap_err().to_string()
        };
        for uploader in ["restic", ""] {
            let error = restore(uploader);
            assert!(
                error.starts_with(r#"PodVolumeRestore "r-x""#) && error.contains("Velero 1.18 or older"),
                "{error}"
            );
        }
        assert!(restore("rsync").contains("only \"kopia\" is known"));
        let mut backup = pod_volume_backup();
        backup.spec.uploader_type = "restic".to_owned();
        assert!(backup.plan().is_err());
        backup.spec.uploader_type.clear();
        assert!(backup.plan().is_ok());
    }
}
