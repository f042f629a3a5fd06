use serde_json::json;
use velero_api::records::{CsiSnapshotInfo, PodVolumeInfo, VolumeMethod};

use super::*;
use crate::volumes::csi::NEEDS_CSI;
use std::collections::BTreeMap;

fn volumes(method: Option<VolumeMethod>, restore_pvs: Option<bool>) -> RestoreVolumes {
    let info = BackupVolumeInfo { pv_name: "pv-1".to_owned(), backup_method: method, ..BackupVolumeInfo::default() };
    let mapping = BTreeMap::from([("shop".to_owned(), "shop-2".to_owned())]);
    let spec = RestoreSpec { restore_pvs, namespace_mapping: mapping, ..RestoreSpec::default() };
    RestoreVolumes::new(vec![info], Vec::new(), &spec, &FeatureFlags::default())
}

fn volume(policy: &str) -> Value {
    let claim = json!({"namespace": "shop", "name": "data", "uid": "1", "resourceVersion": "2"});
    json!({"metadata": {"name": "pv-1"}, "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": claim}})
}

#[test]
fn the_way_it_was_backed_up_decides_then_the_reclaim_policy() {
    use VolumeMethod::{CsiSnapshot, NativeSnapshot, PodVolumeBackup};
    for (method, restore_pvs, policy, expected) in [
        (Some(NativeSnapshot), None, "Delete", VolumeVerdict::FromSnapshot),
        (Some(NativeSnapshot), Some(false), "Delete", VolumeVerdict::AsItWas),
        (
            Some(PodVolumeBackup),
            None,
            "Retain",
            VolumeVerdict::AnewWithData("a copy of which the backup has no record"),
        ),
        (Some(PodVolumeBackup), Some(false), "Retain", VolumeVerdict::Anew),
        (
            Some(CsiSnapshot),
            Some(true),
            "Retain",
            VolumeVerdict::AnewWithData("a CSI snapshot, which needs a server with --features=EnableCSI"),
        ),
        (None, None, "Delete", VolumeVerdict::Anew),
        (None, None, "Retain", VolumeVerdict::AsItWas),
        (None, None, "", VolumeVerdict::AsItWas),
    ] {
        let verdict = volumes(method.clone(), restore_pvs).handle(&mut volume(policy));
        assert_eq!(verdict, expected, "{method:?} {restore_pvs:?} {policy}");
    }
}

#[test]
fn with_the_feature_a_csi_snapshot_is_left_to_the_actions_on_the_claim_and_told_of() {
    let info = BackupVolumeInfo {
        pv_name: "pv-1".to_owned(),
        pvc_namespace: "shop".to_owned(),
        pvc_name: "data".to_owned(),
        backup_method: Some(VolumeMethod::CsiSnapshot),
        csi_snapshot_info: Some(CsiSnapshotInfo { snapshot_handle: "h".to_owned(), ..CsiSnapshotInfo::default() }),
        ..BackupVolumeInfo::default()
    };
    let moved = BackupVolumeInfo { pv_name: "pv-2".to_owned(), snapshot_data_moved: true, ..info.clone() };
    let features = ["EnableCSI"].into_iter().collect();
    let volumes = RestoreVolumes::new(vec![info, moved], Vec::new(), &RestoreSpec::default(), &features);
    assert_eq!(volumes.handle(&mut volume("Retain")), VolumeVerdict::Anew);
    let mut other = volume("Retain");
    other["metadata"]["name"] = json!("pv-2");
    assert_eq!(volumes.handle(&mut other), VolumeVerdict::Anew, "a data mover fills it");
    let source = json!({"kind": "VolumeSnapshot", "name": "new"});
    volumes.notes.note_claim(&json!({"metadata": {"name": "data"}, "spec": {}}), "shop", "shop-2");
    volumes.notes.note_claim(&json!({"metadata": {"name": "data"}, "spec": {"dataSource": source}}), "shop", "shop-2");
    let [restored] = &volumes.notes.restored()[..] else { panic!("one claim") };
    assert_eq!((restored.pvc_namespace.as_str(), restored.pvc_name.as_str()), ("shop-2", "data"));
    let csi = restored.csi_snapshot_info.as_ref().unwrap();
    assert_eq!((csi.snapshot_handle.as_str(), csi.vsc_name.as_str()), ("h", "new"));
}

#[test]
fn a_volume_whose_snapshot_failed_in_the_backup_is_told_of() {
    let failed = BackupVolumeInfo {
        pv_name: "pv-1".to_owned(),
        backup_method: Some(VolumeMethod::CsiSnapshot),
        result: Some(velero_api::records::VolumeResult::Failed),
        ..BackupVolumeInfo::default()
    };
    let verdict = |info: &BackupVolumeInfo, restore_pvs| {
        let spec = RestoreSpec { restore_pvs, ..RestoreSpec::default() };
        let features = ["EnableCSI"].into_iter().collect();
        RestoreVolumes::new(vec![info.clone()], Vec::new(), &spec, &features).handle(&mut volume("Retain"))
    };
    let told = VolumeVerdict::AnewWithData("no snapshot, for that of the backup failed");
    assert_eq!((verdict(&failed, None), verdict(&failed, Some(false))), (told, VolumeVerdict::Anew));
    let moved = |operation: &str| BackupVolumeInfo {
        snapshot_data_moved: true,
        snapshot_data_movement_info: Some(velero_api::records::SnapshotDataMovementInfo {
            operation_id: operation.to_owned(),
            ..Default::default()
        }),
        ..failed.clone()
    };
    assert_eq!(verdict(&moved(""), None), told);
    assert_eq!(verdict(&moved("du-1"), None), VolumeVerdict::Anew, "the action on its claim tells of the upload");
}

#[test]
fn moved_data_stays_where_it_is_without_the_feature() {
    let moved = BackupVolumeInfo {
        pv_name: "pv-1".to_owned(),
        backup_method: Some(VolumeMethod::CsiSnapshot),
        snapshot_data_moved: true,
        ..BackupVolumeInfo::default()
    };
    let spec = |restore_pvs| RestoreSpec { restore_pvs, ..RestoreSpec::default() };
    let verdict = |restore_pvs| {
        RestoreVolumes::new(vec![moved.clone()], Vec::new(), &spec(restore_pvs), &FeatureFlags::default())
            .handle(&mut volume("Retain"))
    };
    let needed = "a data mover's repository, which needs a server with --features=EnableCSI";
    assert_eq!(verdict(None), VolumeVerdict::AnewWithData(needed));
    assert_eq!(verdict(Some(false)), VolumeVerdict::Anew);
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "disk"}});
    let features = ["EnableCSI"].into_iter().collect();
    let with_csi = RestoreVolumes::new(Vec::new(), Vec::new(), &spec(None), &features);
    assert!(with_csi.left_by_work(&upload).is_none(), "it comes back");
    assert_eq!(with_csi.handle(&mut volume("Retain")), VolumeVerdict::AsItWas, "nothing is known of it");
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "data"}});
    let mut of_another = upload.clone();
    of_another["metadata"] = json!({"labels": {"velero.io/backup-name": "another"}});
    with_csi.meet_work("datauploads.velero.io", &of_another);
    assert_eq!(with_csi.handle(&mut volume("Retain")), VolumeVerdict::AsItWas, "work for another backup");
    with_csi.meet_work("datauploads.velero.io", &upload);
    assert_eq!(with_csi.handle(&mut volume("Retain")), VolumeVerdict::Anew, "a backup without a file about volumes");
}

#[test]
fn a_kept_volume_waits_for_its_claim_in_the_new_namespace() {
    let volumes = volumes(None, None);
    let mut kept = volume("Retain");
    volumes.handle(&mut kept);
    assert_eq!(kept["spec"]["claimRef"], json!({"namespace": "shop-2", "name": "data"}));
    let mut claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv-1"}});
    volumes.notes.free_claim(&mut claim);
    assert_eq!(claim, json!({"metadata": {"annotations": {}}, "spec": {"volumeName": "pv-1"}}));
}

#[test]
fn a_claim_whose_volume_is_not_made_again_gets_a_new_one() {
    let volumes = volumes(None, None);
    volumes.handle(&mut volume("Delete"));
    let mut claim = json!({"metadata": {}, "spec": {"volumeName": "pv-1", "accessModes": []}});
    volumes.notes.free_claim(&mut claim);
    assert_eq!(claim["spec"], json!({"accessModes": []}));
}

#[test]
fn a_backup_without_a_file_about_volumes_is_judged_by_its_snapshots() {
    let mut snapshot = Snapshot::default();
    snapshot.spec.persistent_volume_name = "pv-1".to_owned();
    let volumes = RestoreVolumes::new(Vec::new(), vec![snapshot], &RestoreSpec::default(), &FeatureFlags::default());
    assert_eq!(volumes.handle(&mut volume("Delete")), VolumeVerdict::FromSnapshot);
}

#[test]
fn a_claim_follows_its_volume_to_another_name() {
    let volumes = volumes(None, None);
    assert!(volumes.notes.moves_claim(&volume("Retain")));
    volumes.notes.rename("pv-1", "velero-clone-1");
    let mut claim = json!({"metadata": {}, "spec": {"volumeName": "pv-1"}});
    volumes.notes.free_claim(&mut claim);
    assert_eq!(claim["spec"]["volumeName"], "velero-clone-1");
}

fn copy(pv: &str, claim: &str, pod: &str, volume: &str, snapshot: &str) -> BackupVolumeInfo {
    let copied = PodVolumeInfo {
        snapshot_handle: snapshot.to_owned(),
        volume_name: volume.to_owned(),
        pod_name: pod.to_owned(),
        pod_namespace: "shop".to_owned(),
        ..PodVolumeInfo::default()
    };
    BackupVolumeInfo {
        pv_name: pv.to_owned(),
        pvc_namespace: if claim.is_empty() { String::new() } else { "shop".to_owned() },
        pvc_name: claim.to_owned(),
        backup_method: Some(VolumeMethod::PodVolumeBackup),
        pvb_info: Some(copied),
        ..BackupVolumeInfo::default()
    }
}

fn of_original(infos: Vec<BackupVolumeInfo>) -> RestoreVolumes {
    RestoreVolumes::new(infos, Vec::new(), &RestoreSpec::default(), &FeatureFlags::default())
}

const COPY: &str = "a restic repository, which only Velero up to 1.18 can restore";

#[test]
fn copies_of_volumes_without_a_persistent_one_are_told_with_their_pod() {
    let volumes = of_original(vec![
        copy("", "", "web", "cache", "s1"),
        copy("", "", "web", "logs", "s2"),
        copy("", "", "web", "empty", ""),
        copy("", "", "db", "cache", "s3"),
    ]);
    let expected = [("cache".to_owned(), COPY), ("logs".to_owned(), COPY)];
    assert_eq!(volumes.left_of_pod("shop", "web"), expected, "an empty volume has no snapshot");
    assert_eq!(volumes.left_of_pod("shop", "web"), [], "each is told of once");
    assert_eq!(volumes.left_of_pod("bank", "db"), [], "the pod of that name in another namespace");
    let spec = RestoreSpec { restore_pvs: Some(false), ..RestoreSpec::default() };
    let unwanted =
        RestoreVolumes::new(vec![copy("", "", "web", "a", "s")], Vec::new(), &spec, &FeatureFlags::default());
    assert_eq!(unwanted.left_of_pod("shop", "web"), [], "no data is wanted");
}

#[test]
fn a_volume_is_told_of_once_by_whichever_comes_first_of_volume_claim_and_pod() {
    let claim = json!({"metadata": {"name": "data"}});
    let infos = || vec![copy("pv-1", "data", "web", "data", "s1")];
    let volumes = of_original(infos());
    assert_eq!(volumes.handle(&mut volume("Delete")), VolumeVerdict::AnewWithData(COPY));
    assert_eq!(volumes.left_of_claim("shop", &claim), None);
    assert_eq!(volumes.left_of_pod("shop", "web"), []);
    let without_volume = of_original(infos());
    assert_eq!(without_volume.left_of_claim("shop", &claim), Some(COPY), "the restore leaves the volume out");
    assert_eq!(without_volume.left_of_pod("shop", "web"), []);
    assert_eq!(of_original(infos()).left_of_pod("shop", "web").len(), 1, "it leaves the claim out too");
}

#[test]
fn a_backup_without_a_file_about_volumes_is_judged_by_its_copies_and_by_what_its_claims_say() {
    let volumes = of_original(vec![copy("", "data", "web", "data", "s1")]);
    assert_eq!(volumes.handle(&mut volume("Delete")), VolumeVerdict::AnewWithData(COPY));
    let by_snapshot = json!({"metadata": {"name": "disk", "annotations": {"velero.io/volume-snapshot-name": "v"}}});
    assert_eq!(of_original(Vec::new()).left_of_claim("shop", &by_snapshot), Some(NEEDS_CSI));
    let features = ["EnableCSI"].into_iter().collect();
    let with_csi = RestoreVolumes::new(Vec::new(), Vec::new(), &RestoreSpec::default(), &features);
    assert_eq!(with_csi.left_of_claim("shop", &by_snapshot), None);
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "disk"}});
    assert_eq!(volumes.left_by_work(&upload).map(|left| left.claim), Some(("shop", "disk")));
    let moved = BackupVolumeInfo { snapshot_data_moved: true, ..copy("pv-9", "disk", "web", "disk", "s") };
    assert!(of_original(vec![moved]).left_by_work(&upload).is_none(), "the file about volumes tells of it");
}

fn by_kopia(mut info: BackupVolumeInfo) -> BackupVolumeInfo {
    if let Some(copy) = &mut info.pvb_info {
        copy.uploader_type = "kopia".to_owned();
    }
    info
}

#[test]
fn a_copy_in_a_kopia_repository_is_left_to_the_pod_that_brings_it_back() {
    let infos = || vec![by_kopia(copy("pv-1", "data", "web", "data", "k1")), copy("", "", "web", "logs", "s2")];
    let volumes = of_original(infos());
    assert_eq!(volumes.handle(&mut volume("Retain")), VolumeVerdict::Anew);
    let copies: Vec<String> = volumes.copies().into_iter().map(|copy| copy.volume_name).collect();
    assert_eq!(copies, ["data"], "restic is not read");
    assert_eq!(volumes.left_of_claim("shop", &json!({"metadata": {"name": "data"}})), None);
    assert_eq!(volumes.left_of_pod("shop", "web"), [("logs".to_owned(), COPY)]);
    let mut failed = by_kopia(copy("pv-1", "data", "web", "data", ""));
    failed.result = Some(velero_api::records::VolumeResult::Failed);
    let failed = of_original(vec![failed]).handle(&mut volume("Retain"));
    assert_eq!(failed, VolumeVerdict::AnewWithData("no copy, for that of the backup failed"));
    let spec = RestoreSpec { restore_pvs: Some(false), ..RestoreSpec::default() };
    let unwanted = RestoreVolumes::new(infos(), Vec::new(), &spec, &FeatureFlags::default());
    assert_eq!(unwanted.handle(&mut volume("Retain")), VolumeVerdict::Anew);
    assert!(unwanted.copies().is_empty() && unwanted.left_of_pod("shop", "web").is_empty(), "no data is wanted");
}
