use serde_json::{Value, json};

use super::pods::PodVolumes;
use super::*;

/// What the policy says and of which volumes, what the pods say, `defaultVolumesToFsBackup`, `snapshotVolumes`,
/// `snapshotMoveData`, the type of the volume, the CSI feature, the phase of the claim, and what is decided.
const MATRIX: &str = "
-- nothing said: a snapshot, whatever the volume is and wherever its claim stands
-             none  no  unset no  hostPath off Bound    snapshot
-             none  no  unset no  nfs      off Bound    snapshot
-             none  no  unset no  csi      off Bound    snapshot
-             none  no  unset no  local    off Bound    snapshot
-             none  no  unset no  hostPath off unclaimed snapshot
-             none  no  unset no  hostPath off Lost     snapshot
-             none  no  unset no  hostPath off Pending  snapshot
-             plain no  unset no  hostPath off Bound    snapshot
-- snapshots wanted or not
-             none  no  true  no  hostPath off Bound    snapshot
-             none  no  false no  hostPath off Bound    off
-             plain no  false no  hostPath off Bound    off
-             none  no  false no  csi      off Bound    off
-             none  no  false no  csi      on  Bound    off
-             none  no  false yes hostPath off Bound    off
-             none  no  false no  hostPath off unclaimed off
-- the CSI feature takes CSI volumes and no others
-             none  no  unset no  csi      on  Bound    csi
-             none  no  true  no  csi      on  Bound    csi
-             none  no  unset no  nfs      on  Bound    snapshot
-             plain no  unset no  csi      on  Bound    csi
-- the data of CSI snapshots is moved where that is wanted; no snapshotter moves data
-             none  no  unset yes csi      on  Bound    moved
-             none  no  true  yes csi      on  Bound    moved
-             plain no  unset yes csi      on  Bound    moved
-             none  no  unset yes csi      on  unclaimed moved
-             none  no  false yes csi      on  Bound    off
-             in    no  unset yes csi      on  Bound    copy
-             plain yes unset yes csi      on  Bound    copy
-             out   yes unset yes csi      on  Bound    moved
-             none  no  unset yes nfs      on  Bound    snapshot
-             none  no  unset yes csi      off Bound    snapshot
-- pods that opt in
-             in    no  unset no  hostPath off Bound    copy
-             in    no  true  no  hostPath off Bound    copy
-             in    no  false no  hostPath off Bound    copy
-             in    no  unset no  csi      on  Bound    copy
-             in    no  unset yes hostPath off Bound    copy
-             out   no  unset no  hostPath off Bound    snapshot
-             both  no  unset no  hostPath off Bound    copy
-             mixed no  unset no  hostPath off Bound    copy
-- pods that opt out where copying is the default
-             plain yes unset no  hostPath off Bound    copy
-             in    yes unset no  hostPath off Bound    copy
-             out   yes unset no  hostPath off Bound    snapshot
-             out   yes false no  hostPath off Bound    off
-             out   yes unset no  csi      on  Bound    csi
-             out   yes unset yes hostPath off Bound    snapshot
-             both  yes unset no  hostPath off Bound    snapshot
-             mixed yes unset no  hostPath off Bound    copy
-             none  yes unset no  hostPath off Bound    snapshot
-             none  yes unset no  hostPath off unclaimed snapshot
-             none  yes false no  hostPath off Bound    off
-             plain yes false no  csi      on  Bound    copy
-- a policy that matches decides alone
skip-all      none  no  unset no  hostPath off Bound    skip
skip-all      in    no  true  no  hostPath off Bound    skip
skip-all      plain yes true  yes csi      on  Bound    skip
skip-all      none  no  false no  hostPath off unclaimed skip
snapshot-all  none  no  unset no  hostPath off Bound    snapshot
snapshot-all  none  no  false no  hostPath off Bound    snapshot
snapshot-all  in    no  unset no  hostPath off Bound    snapshot
snapshot-all  plain yes unset no  hostPath off Bound    snapshot
snapshot-all  none  no  false no  csi      on  Bound    csi
snapshot-all  none  no  unset yes hostPath off Bound    snapshot
snapshot-all  none  no  unset yes csi      on  Bound    moved
skip-all      none  no  unset yes csi      on  Bound    skip
snapshot-all  in    no  false yes csi      on  Bound    moved
copy-all      none  no  unset no  hostPath off Bound    copy
copy-all      out   yes true  no  hostPath off Bound    copy
copy-all      none  no  false no  csi      on  Bound    copy
custom-all    none  no  unset no  hostPath off Bound    custom
custom-all    in    no  true  no  csi      on  Bound    custom
-- a policy that does not match changes nothing
skip-nfs      none  no  unset no  nfs      off Bound    skip
skip-nfs      none  no  unset no  hostPath off Bound    snapshot
skip-nfs      in    no  unset no  hostPath off Bound    copy
skip-nfs      none  no  false no  hostPath off Bound    off
snapshot-csi  none  no  false no  csi      off Bound    snapshot
snapshot-csi  none  no  false no  hostPath off Bound    off
copy-lost     none  no  unset no  hostPath off Lost     copy
copy-lost     none  no  unset no  hostPath off Bound    snapshot
skip-pending  none  no  unset no  hostPath off Pending  skip
skip-pending  none  no  unset no  hostPath off Bound    snapshot
skip-pending  none  no  unset no  hostPath off unclaimed snapshot
snapshot-bound none no  false no  hostPath off Bound    snapshot
snapshot-bound none no  false no  hostPath off Lost     off
";

fn policies(name: &str) -> Option<ResourcePolicies> {
    let (action, condition) = name.split_once('-').filter(|(action, _)| !action.is_empty())?;
    let action = if action == "copy" { "fs-backup" } else { action };
    let condition = match condition {
        "all" => "{}".to_owned(),
        "csi" => "{csi: {}}".to_owned(),
        "nfs" => "{volumeTypes: [nfs]}".to_owned(),
        phase => format!("{{pvcPhase: [{}{}]}}", phase[..1].to_uppercase(), &phase[1..]),
    };
    let document = format!("version: v1\nvolumePolicies:\n- conditions: {condition}\n  action: {{type: {action}}}\n");
    Some(ResourcePolicies::parse(&document).unwrap())
}

fn pod(annotations: &Value) -> Vec<PodVolume> {
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "emptyDir": {}},
    ]);
    let pod = json!({"metadata": {"annotations": annotations}, "spec": {"volumes": volumes}});
    let volumes = PodVolumes::read(pod.to_string().as_bytes()).unwrap().volumes;
    volumes.into_iter().filter(|volume| volume.claim.is_some()).collect()
}

fn mounts(pods: &str) -> Vec<PodVolume> {
    let (include, exclude) = ("backup.velero.io/backup-volumes", "backup.velero.io/backup-volumes-excludes");
    match pods {
        "none" => Vec::new(),
        "plain" => pod(&json!(null)),
        "in" => pod(&json!({include: "scratch,data"})),
        "out" => pod(&json!({exclude: "data"})),
        "both" => pod(&json!({include: "data", exclude: "data"})),
        "mixed" => [pod(&json!({include: "data"})), pod(&json!({exclude: "data"})), pod(&json!({}))].concat(),
        other => panic!("{other}"),
    }
}

fn volume(kind: &str, phase: &str) -> VolumeData {
    let volume = VolumeData::of_persistent_volume(&json!({"spec": {kind: {"driver": "d"}}}));
    match phase {
        "unclaimed" => volume,
        phase => volume.with_claim(&json!({"status": {"phase": phase}})),
    }
}

fn decision(name: &str) -> VolumeDecision {
    match name {
        "snapshot" => VolumeDecision::Snapshot,
        "csi" => VolumeDecision::CsiSnapshot,
        "moved" => VolumeDecision::MovedSnapshot,
        "copy" => VolumeDecision::FsBackup,
        "skip" => VolumeDecision::Skip(SkipReason::Policy),
        "custom" => VolumeDecision::Skip(SkipReason::Custom),
        "off" => VolumeDecision::Skip(SkipReason::SnapshotsOff),
        other => panic!("{other}"),
    }
}

#[test]
fn every_volume_is_treated_as_the_matrix_says() {
    let rows: Vec<&str> = MATRIX.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")).collect();
    assert!(rows.len() >= 60, "{}", rows.len());
    for row in rows {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let [policy, pods, by_default, snapshots, moves, kind, csi, phase, expected] = columns[..] else {
            panic!("{row}")
        };
        let policies = policies(policy);
        let rules = VolumeRules {
            policies: policies.as_ref(),
            snapshot_volumes: snapshots.parse().ok(),
            snapshot_move_data: moves == "yes",
            fs_backup_by_default: by_default == "yes",
            csi: csi == "on",
            claims_are_left_out: false,
        };
        assert_eq!(rules.decide(&volume(kind, phase), &mounts(pods)), decision(expected), "{row}");
    }
}

#[test]
fn claims_are_asked_for_only_where_policies_can_tell_them_apart() {
    let rules = |policies| VolumeRules::new(&BackupSpec::default(), policies, &FeatureFlags::default());
    assert!(!rules(None).ask_for_claims());
    let filters_only = ResourcePolicies::parse("version: v1").unwrap();
    assert!(!rules(Some(&filters_only)).ask_for_claims());
    assert!(rules(policies("skip-all").as_ref()).ask_for_claims());
}
