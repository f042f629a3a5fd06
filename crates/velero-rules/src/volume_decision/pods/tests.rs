use serde_json::json;

use super::*;
use crate::resource_policies::ResourcePolicies;

/// What the policy says and of which volumes, what the pod says of the volume, `defaultVolumesToFsBackup`, the phase of
/// the pod, the type of the volume (that of the persistent volume after a slash), and what is decided.
const MATRIX: &str = "
-- nobody asks
-            -    no  Running   emptyDir     not-asked
-            -    no  Running   claim/csi    not-asked
-            out  no  Running   emptyDir     not-asked
-            -    no  Pending   emptyDir     not-asked
-- the pod names the volume
-            in   no  Running   emptyDir     pod
-            in   no  Running   claim/csi    pod
-            in   no  Running   claim/nfs    pod
-            in   no  Running   nfs          pod
-            in   no  Running   csi          pod
-            in   no  Running   ephemeral    pod
-            in   no  Running   claim        pod
-            both no  Running   emptyDir     pod
-- all volumes that are not named otherwise
-            -    yes Running   emptyDir     default
-            -    yes Running   claim/csi    default
-            -    yes Running   nfs          default
-            in   yes Running   emptyDir     default
-            out  yes Running   emptyDir     not-asked
-            out  yes Running   claim/csi    not-asked
-            both yes Running   emptyDir     not-asked
-- volumes without data of their own are never copied
-            -    yes Running   hostPath     not-asked
-            -    yes Running   secret       not-asked
-            -    yes Running   configMap    not-asked
-            -    yes Running   projected    not-asked
-            -    yes Running   downwardAPI  not-asked
-            -    yes Running   image        not-asked
-            -    yes Running   token        not-asked
-            -    yes Running   left-out     not-asked
copy-all     -    no  Running   configMap    not-asked
copy-all     -    no  Running   hostPath     not-asked
copy-all     -    no  Running   left-out     not-asked
-            in   no  Running   secret       cannot/pod/type
-            in   no  Running   hostPath     cannot/pod/type
-            in   no  Running   token        cannot/pod/type
-            in   no  Running   left-out     cannot/pod/left-out
-            in   yes Running   left-out     cannot/pod/left-out
-- a policy that matches decides alone
copy-all     -    no  Running   emptyDir     policy
copy-all     out  yes Running   emptyDir     policy
copy-all     -    no  Running   claim/csi    policy
skip-all     in   no  Running   emptyDir     not-asked
skip-all     -    yes Running   claim/csi    not-asked
snapshot-all in   no  Running   claim/csi    not-asked
custom-all   -    yes Running   emptyDir     not-asked
skip-nfs     in   no  Running   nfs          not-asked
skip-nfs     in   no  Running   claim/nfs    not-asked
skip-nfs     in   no  Running   emptyDir     pod
skip-nfs     -    yes Running   claim/csi    default
copy-nfs     -    no  Running   claim/nfs    policy
copy-nfs     -    no  Running   claim/csi    not-asked
-- what cannot be copied as it is
-            in   no  Pending   emptyDir     cannot/pod/not-running
-            -    yes Pending   emptyDir     cannot/default/not-running
-            -    yes Succeeded emptyDir     cannot/default/ended
-            in   no  Succeeded emptyDir     cannot/pod/ended
-            -    yes Failed    claim/csi    cannot/default/ended
-            in   no  Unknown   emptyDir     cannot/pod/not-running
copy-all     -    no  Pending   claim/csi    cannot/policy/not-running
copy-all     -    no  Succeeded emptyDir     cannot/policy/ended
-            in   no  Running   claim/hostPath cannot/pod/host-path
-            in   no  Running   claim/block  cannot/pod/block
copy-all     -    no  Running   claim/block  cannot/policy/block
-            in   no  Running   unmounted    cannot/pod/not-mounted
-            -    yes Running   unmounted    cannot/default/not-mounted
-            out  yes Running   unmounted    not-asked
";

fn policies(name: &str) -> Option<ResourcePolicies> {
    let (action, condition) = name.split_once('-').filter(|(action, _)| !action.is_empty())?;
    let action = if action == "copy" { "fs-backup" } else { action };
    let condition = if condition == "all" { "{}".to_owned() } else { format!("{{volumeTypes: [{condition}]}}") };
    let document = format!("version: v1\nvolumePolicies:\n- conditions: {condition}\n  action: {{type: {action}}}\n");
    Some(ResourcePolicies::parse(&document).unwrap())
}

/// A pod with one volume, and what is known of that.
fn pod(says: &str, phase: &str, kind: &str) -> (PodVolumes, VolumeData) {
    let name = if kind == "token" { "default-token-x7k2p" } else { "data" };
    let annotations = match says {
        "in" => json!({VOLUMES_TO_BACKUP: format!("other,{name}")}),
        "out" => json!({VOLUMES_TO_EXCLUDE: name}),
        "both" => json!({VOLUMES_TO_BACKUP: name, VOLUMES_TO_EXCLUDE: name}),
        _ => json!(null),
    };
    let source = match kind.split_once('/').map_or(kind, |(source, _)| source) {
        "claim" | "left-out" => json!({"name": name, "persistentVolumeClaim": {"claimName": "c"}}),
        "token" | "unmounted" => json!({"name": name, "emptyDir": {}}),
        source => json!({"name": name, source: {"driver": "d"}}),
    };
    let mounts = if kind == "unmounted" { json!([]) } else { json!([{"name": name, "mountPath": "/data"}]) };
    let pod = json!({
        "metadata": {"annotations": annotations},
        "spec": {"volumes": [source], "containers": [{"volumeMounts": mounts}]},
        "status": {"phase": phase},
    });
    let pod = PodVolumes::read(pod.to_string().as_bytes()).unwrap();
    let behind = match kind.split_once('/') {
        Some((_, "block")) => {
            let volume = VolumeData::of_persistent_volume(&json!({"spec": {"csi": {"driver": "d"}}}));
            volume.with_claim(&json!({"spec": {"volumeMode": "Block"}}))
        }
        Some((_, volume)) => VolumeData::of_persistent_volume(&json!({"spec": {volume: {"driver": "d"}}})),
        None => pod.volumes[0].data.clone(),
    };
    (pod, behind)
}

fn asked_by(name: &str) -> AskedBy {
    match name {
        "policy" => AskedBy::Policy,
        "pod" => AskedBy::Pod,
        "default" => AskedBy::Default,
        other => panic!("{other}"),
    }
}

fn decision(name: &str) -> PodVolumeDecision {
    use PodVolumeDecision::{CannotCopy, Copy, NotAsked};
    match name.split('/').collect::<Vec<_>>()[..] {
        ["not-asked"] => NotAsked,
        [asker] => Copy(asked_by(asker)),
        ["cannot", asker, obstacle] => CannotCopy(
            asked_by(asker),
            match obstacle {
                "type" => Obstacle::Type,
                "not-running" => Obstacle::NotRunning,
                "ended" => Obstacle::Ended,
                "host-path" => Obstacle::HostPath,
                "block" => Obstacle::Block,
                "not-mounted" => Obstacle::NotMounted,
                "left-out" => Obstacle::LeftOut,
                other => panic!("{other}"),
            },
        ),
        _ => panic!("{name}"),
    }
}

#[test]
fn what_is_asked_for_a_volume_of_a_pod_is_what_the_matrix_says() {
    for row in MATRIX.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")) {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let [policy, says, by_default, phase, kind, expected] = columns[..] else { panic!("{row}") };
        let policies = policies(policy);
        let rules = VolumeRules {
            policies: policies.as_ref(),
            snapshot_volumes: None,
            snapshot_move_data: false,
            fs_backup_by_default: by_default == "yes",
            csi: false,
            claims_are_left_out: kind == "left-out",
        };
        let (pod, data) = pod(says, phase, kind);
        assert_eq!(rules.of_pod_volume(&pod, &pod.volumes[0], &data), decision(expected), "{row}");
    }
}

/// Who asks, the type of the volume, and the obstacles that are errors; the others are warnings.
const ERRORS: [(&str, &str, &[Obstacle]); 5] = {
    use Obstacle::{Block, Ended, HostPath, NotMounted, NotRunning, Type};
    [
        ("pod", "emptyDir", &[Type, NotRunning, Ended, HostPath, Block, NotMounted]),
        ("default", "emptyDir", &[NotRunning]),
        ("policy", "emptyDir", &[NotRunning]),
        ("default", "ephemeral", &[NotRunning]),
        ("default", "claim/csi", &[Type, NotRunning, Ended, HostPath, Block, NotMounted]),
    ]
};

#[test]
fn what_is_named_and_what_has_a_claim_is_an_error_when_it_is_not_copied() {
    use Obstacle::{Block, Ended, HostPath, LeftOut, NotMounted, NotRunning, Type};
    for (asker, kind, errors) in ERRORS {
        let (pod, _) = pod("-", "Running", kind);
        let all = [Type, NotRunning, Ended, HostPath, Block, NotMounted, LeftOut];
        let is_error = |obstacle: &Obstacle| obstacle.is_error(asked_by(asker), &pod.volumes[0]);
        let found: Vec<Obstacle> = all.into_iter().filter(is_error).collect();
        assert_eq!(found, errors, "{asker} {kind}");
    }
}

#[test]
fn a_name_must_match_as_a_whole_and_one_that_the_pod_does_not_have_is_told() {
    let pod = json!({
        "metadata": {"name": "web", "annotations": {VOLUMES_TO_BACKUP: "database, cache ,,logs"}},
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "cache", "emptyDir": {}},
                {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
            ],
            "containers": [{}, {"volumeMounts": null}],
            "initContainers": [{"volumeMounts": [{"name": "cache"}]}],
        },
    });
    let pod = PodVolumes::read(pod.to_string().as_bytes()).unwrap();
    let [data, cache, own] = &pod.volumes[..] else { panic!("{pod:?}") };
    assert_eq!((data.claim.as_deref(), data.opted_in, data.is_mounted), (Some("c"), false, false));
    assert_eq!((cache.claim.as_deref(), cache.opted_in, cache.is_mounted), (None, true, true));
    assert_eq!((own.claim.as_deref(), own.is_ephemeral()), (Some("web-own"), true), "its claim is made for the pod");
    assert_eq!(pod.unknown, ["database", "logs"]);
    assert_eq!(pod.phase, "");
    assert_eq!(PodVolumes::read(b"{}").unwrap(), PodVolumes::default());
    assert!(PodVolumes::read(b"[").is_err());
}
