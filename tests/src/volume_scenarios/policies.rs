//! Volumes that a volume policy decides about.

use serde_json::{Value, json};

use super::pods::{
    NO_CLASS, OTHER_CLASS, annotated, claim, claim_of, labelled_claim, pending, pod, pod_with_claim, pod_with_scratch,
    with,
};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

/// The name of the ConfigMap with the policy.
pub(super) const NAME: &str = "volume-scenarios";

const NOT_SAVED: &str = "a volume that a policy wants to be copied and that is not saved is an error";

/// The first rule that matches decides.
const POLICY: &str = r#"
version: v1
volumePolicies:
- conditions: {pvcLabels: {way: none}}
  action: {type: skip}
- conditions: {storageClass: [other]}
  action: {type: skip}
- conditions: {capacity: "10Mi,20Mi"}
  action: {type: skip}
- conditions: {volumeTypes: [csi], pvcLabels: {kind: skipped}}
  action: {type: skip}
- conditions: {pvcLabels: {way: copy}}
  action: {type: fs-backup}
- conditions: {csi: {}, pvcLabels: {way: snapshot}}
  action: {type: snapshot}
- conditions: {pvcLabels: {way: custom}}
  action: {type: custom}
- conditions: {pvcPhase: [Pending]}
  action: {type: skip}
- conditions: {volumeTypes: [emptyDir, configMap]}
  action: {type: fs-backup}
"#;

/// The ConfigMap with the policy.
pub(super) fn document(namespace: &str) -> Value {
    velero_testkit::objects::config_map(namespace, NAME, "policy.yaml", POLICY)
}

pub(super) fn rows() -> Vec<Row> {
    let row = |name, objects| Row::new(name, Way::Policy, objects);
    let web = || pod_with_claim("web", "");
    let large = with(claim("data"), "/spec/resources/requests/storage", json!("15Mi"));
    let way = |way: &str| labelled_claim("data", "way", way);
    let skipped = ["backup Completed", "claim data: skipped"];
    let lost = ["backup PartiallyFailed", "claim data: skipped"];
    let copied = ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];
    let snapshotted = ["backup Completed", "claim data: CSISnapshot succeeded"];
    let map = json!({"name": "map", "configMap": {"name": "settings"}});
    let settings = velero_testkit::objects::config_map("", "settings", "key", "value");
    vec![
        row("policy-skips-label", vec![way("none"), web()]).gives(&skipped),
        row("policy-skips-class", vec![claim_of("data", OTHER_CLASS), web()]).gives(&skipped),
        row("policy-skips-size", vec![large, web()]).gives(&skipped),
        row("policy-skips-type", vec![labelled_claim("data", "kind", "skipped"), web()]).gives(&skipped),
        row("policy-skips-asked", vec![way("none"), pod_with_claim("web", "data")]).gives(&skipped),
        row("policy-copies-claim", vec![way("copy"), web()])
            .restored(Again::Whole)
            .gives(&[&copied[..], &["restore Completed", "web/data same"]].concat()),
        row("policy-copies-empty-dir", vec![pod_with_scratch("web", "")]).gives(&[
            "backup Completed",
            "copy web/scratch Completed",
            "volume web/scratch: PodVolumeBackup succeeded",
        ]),
        row("policy-copies-map", vec![settings, pod("web", "", &[map])]).gives(&["backup Completed"]),
        row("policy-copies-without-pod", vec![way("copy"), pod_with_claim("filler", "")])
            .without(&["filler"])
            .gives(&skipped)
            .but_ours(NOT_SAVED, &lost),
        row("policy-copies-pending", vec![way("copy"), pending(web())])
            .gives(&["backup Completed", "backup warns", "claim data: skipped"])
            .but_ours(NOT_SAVED, &lost),
        row("policy-skips-unbound", vec![claim_of("data", NO_CLASS)]).gives(&["backup Completed"]),
        row(
            "policy-copies-but-excluded",
            vec![way("copy"), { annotated(web(), "backup.velero.io/backup-volumes-excludes", "data") }],
        )
        .gives(&copied),
        row("policy-snapshots", vec![way("snapshot"), web()])
            .restored(Again::Whole)
            .gives(&[&snapshotted[..], &["restore Completed", "web/data same"]].concat()),
        row("policy-snapshots-asked", vec![way("snapshot"), pod_with_claim("web", "data")]).gives(&snapshotted),
        row("policy-custom", vec![way("custom"), web()]).gives(&skipped),
        row("policy-silent", vec![claim("data"), web()]).gives(&snapshotted),
        row(
            "policy-silent-asked",
            vec![claim("data"), pod("web", "data", &[claimed("data", "data"), empty_dir("scratch")])],
        )
        .gives(
            &[&copied[..], &["copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"]].concat(),
        ),
        Row::new("policy-moves", Way::PolicyMoved, vec![way("snapshot"), web()])
            .gives(&["backup Completed", "claim data: CSISnapshot moved succeeded"]),
        Row::new("policy-copies-not-moves", Way::PolicyMoved, vec![way("copy"), web()]).gives(&copied),
        Row::new("policy-skips-not-moves", Way::PolicyMoved, vec![way("none"), web()]).gives(&skipped),
    ]
}
