//! Backups that copy all volumes but the excluded ones.

use serde_json::{Value, json};

use super::pods::{
    annotated, behind_others, claim, ephemeral, others, pending, pod, pod_with_claim, pod_with_scratch, succeeded, with,
};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const EXCLUDES: &str = "backup.velero.io/backup-volumes-excludes";
const COPIED_CLAIM: [&str; 3] =
    ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];
const SCRATCH: [&str; 2] = ["copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"];

pub(super) fn rows() -> Vec<Row> {
    [kinds(), states(), other_ways()].into_iter().flatten().collect()
}

fn row(name: &'static str, objects: Vec<Value>) -> Row {
    Row::new(name, Way::All, objects)
}

/// A pod with a claim and a volume of its own.
fn both() -> Value {
    pod("web", "", &[claimed("data", "data"), empty_dir("scratch")])
}

fn kinds() -> Vec<Row> {
    let mut all_kinds = behind_others();
    all_kinds.push(pod("web", "", &[&others()[..], &[empty_dir("scratch")]].concat()));
    vec![
        row("all-claim", vec![claim("data"), pod_with_claim("web", "")])
            .restored(Again::Whole)
            .gives(&[&COPIED_CLAIM[..], &["restore Completed", "web/data same"]].concat()),
        row("all-empty-dir", vec![pod_with_scratch("web", "")]).gives(&[&["backup Completed"], &SCRATCH[..]].concat()),
        row("all-but-scratch", vec![claim("data"), annotated(both(), EXCLUDES, "scratch")]).gives(&COPIED_CLAIM),
        row("all-but-claim", vec![claim("data"), annotated(both(), EXCLUDES, "data")])
            .gives(&[&["backup Completed", "claim data: CSISnapshot succeeded"], &SCRATCH[..]].concat()),
        row("all-but-unknown", vec![claim("data"), annotated(both(), EXCLUDES, "nothing")])
            .gives(&[&COPIED_CLAIM[..], &SCRATCH[..]].concat()),
        row("all-of-every-kind", all_kinds).gives(&[&["backup Completed"], &SCRATCH[..]].concat()),
        row("all-shared", vec![claim("data"), pod_with_claim("other", ""), pod_with_claim("web", "")]).gives(&[
            "backup Completed",
            "copy other/data Completed",
            "claim data: PodVolumeBackup succeeded",
        ]),
    ]
}

/// Pods that do not run, and pods that disagree.
fn states() -> Vec<Row> {
    vec![
        row("all-pending", vec![claim("data"), pending(pod_with_claim("web", ""))])
            .gives(&["backup Completed", "backup warns", "claim data: skipped"])
            .but_ours(
                "a volume that is asked for and not saved is an error, not a warning",
                &["backup PartiallyFailed", "claim data: skipped"],
            ),
        row("all-succeeded", vec![claim("data"), succeeded(pod_with_claim("web", ""))])
            .gives(&["backup Completed", "backup warns", "claim data: skipped"])
            .but_ours(
                "a claim whose data is nowhere in a backup of all volumes is an error",
                &["backup PartiallyFailed", "claim data: skipped"],
            ),
        row("all-succeeded-scratch", vec![succeeded(pod_with_scratch("web", ""))])
            .gives(&["backup Completed", "backup warns"]),
        row("all-not-mounted", vec![with(pod_with_scratch("web", ""), "/spec/containers/0/volumeMounts", json!([]))])
            .gives(&["backup Completed", "backup warns"]),
        row("all-excluded-by-one", vec![
            claim("data"),
            annotated(pod_with_claim("other", ""), EXCLUDES, "data"),
            pod_with_claim("web", ""),
        ])
        .gives(&COPIED_CLAIM),
        row("all-but-both", vec![claim("data"), annotated(both(), EXCLUDES, "data,scratch")])
            .gives(&["backup Completed", "claim data: CSISnapshot succeeded"]),
        row("all-asked-one", vec![claim("data"), annotated(both(), "backup.velero.io/backup-volumes", "scratch")])
            .gives(&[&COPIED_CLAIM[..], &SCRATCH[..]].concat()),
        row("all-ephemeral", vec![pod("web", "", &[ephemeral("data")])])
            .gives(&[
                "backup PartiallyFailed",
                "copy web/data Failed",
                "claim web-data: CSISnapshot succeeded",
                "volume web/data: PodVolumeBackup failed",
            ])
            .but_ours(
                "the claim of a generic ephemeral volume is found; the original looks for a folder of the volume's name",
                &["backup Completed", "copy web/data Completed", "claim web-data: PodVolumeBackup succeeded"],
            ),
        row("all-without-pod", vec![claim("data"), pod_with_claim("filler", "")])
            .without(&["filler"])
            .gives(&["backup Completed", "claim data: CSISnapshot succeeded"]),
    ]
}

/// Backups of pods alone, and those that move snapshots too.
fn other_ways() -> Vec<Row> {
    vec![
        Row::new("pods-alone", Way::Pods, vec![claim("data"), both()])
            .gives(&[&["backup Completed"], &SCRATCH[..]].concat()),
        Row::new(
            "pods-alone-asked",
            Way::Pods,
            vec![claim("data"), { annotated(both(), "backup.velero.io/backup-volumes", "data,scratch") }],
        )
        .gives(&[&["backup Completed"], &SCRATCH[..]].concat())
        .but_ours(
            "who asks for a volume whose claim is no part of the backup is warned",
            &[&["backup Completed", "backup warns"], &SCRATCH[..]].concat(),
        ),
        Row::new("all-moved", Way::AllMoved, vec![claim("data"), both()])
            .gives(&[&COPIED_CLAIM[..], &SCRATCH[..]].concat()),
        Row::new("all-moved-but-claim", Way::AllMoved, vec![claim("data"), annotated(both(), EXCLUDES, "data")])
            .restored(Again::Whole)
            .gives(
                &[
                    &["backup Completed", "claim data: CSISnapshot moved succeeded"],
                    &SCRATCH[..],
                    &["restore Completed", "web/data same", "web/scratch same"],
                ]
                .concat(),
            ),
    ]
}
