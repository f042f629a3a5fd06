//! Volumes that the annotation of a pod asks for, by their kinds.

use serde_json::{Value, json};

use super::pods::{
    NO_CLASS, annotated, behind_others, claim, claim_of, ephemeral, failed, labelled_claim, others, pending, pod,
    pod_with_claim, pod_with_scratch, succeeded, with,
};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED_CLAIM: &[&str] = &["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];

/// A claim that is asked for and not saved: the original warns.
const SKIPPED: &[&str] = &["backup Completed", "backup warns", "claim data: skipped"];
/// The same with ours: what was asked for and not done is an error.
const LOST: &[&str] = &["backup PartiallyFailed", "claim data: skipped"];
const NOT_SAVED: &str = "a volume that is asked for and not saved is an error, not a warning";
const UNKNOWN: &str = "a volume that is asked for and not there is an error, not a line of the log";
const WITHOUT_DATA: &str = "a volume that is asked for and never copied is an error";
/// A claim of a generic ephemeral volume.
const EPHEMERAL: &str =
    "the claim of a generic ephemeral volume is found; the original looks for a folder of the volume's name";

/// Lines and further ones.
fn and<'a>(lines: &[&'a str], further: &[&'a str]) -> Vec<&'a str> {
    [lines, further].concat()
}

pub(super) fn rows() -> Vec<Row> {
    [data(), without_data(), states(), shared(), selected(), excluded()].into_iter().flatten().collect()
}

fn row(name: &'static str, objects: Vec<Value>) -> Row {
    Row::new(name, Way::Asked, objects)
}

/// Volumes that hold data.
fn data() -> Vec<Row> {
    let both = [claimed("data", "data"), empty_dir("scratch")];
    vec![
        row("asked-claim", vec![claim("data"), pod_with_claim("web", "data")])
            .restored(Again::Whole)
            .gives(&and(COPIED_CLAIM, &["restore Completed", "web/data same"])),
        row("asked-empty-dir", vec![pod_with_scratch("web", "scratch")]).restored(Again::Whole).gives(&[
            "backup Completed",
            "copy web/scratch Completed",
            "volume web/scratch: PodVolumeBackup succeeded",
            "restore Completed",
            "web/scratch same",
        ]),
        row("asked-two", vec![claim("data"), pod("web", "data,scratch", &both)]).restored(Again::Whole).gives(&and(
            COPIED_CLAIM,
            &[
                "copy web/scratch Completed",
                "volume web/scratch: PodVolumeBackup succeeded",
                "restore Completed",
                "web/data same",
                "web/scratch same",
            ],
        )),
        row("asked-one-of-two", vec![claim("data"), pod("web", "scratch", &both)]).restored(Again::Whole).gives(&[
            "backup Completed",
            "copy web/scratch Completed",
            "volume web/scratch: PodVolumeBackup succeeded",
            "claim data: skipped",
            "restore Completed",
            "web/data new",
            "web/scratch same",
        ]),
        row("asked-none", vec![claim("data"), pod_with_claim("web", "")])
            .gives(&["backup Completed", "claim data: skipped"]),
    ]
}

/// Volumes of the kinds that hold nothing of their own; who asks for them is told.
fn without_data() -> Vec<Row> {
    let names = ["asked-config-map", "asked-secret", "asked-projected", "asked-host-path", "asked-downward"];
    let of_kind = |(name, volume): (&'static str, Value)| {
        let asked = volume["name"].as_str().unwrap_or_default().to_owned();
        let mut objects = behind_others();
        objects.push(pod("web", &asked, &[volume]));
        row(name, objects).gives(&["backup Completed"]).but_ours(WITHOUT_DATA, &["backup PartiallyFailed"])
    };
    names.into_iter().zip(others()).map(of_kind).collect()
}

/// Pods that do not run, and volumes that are not there.
fn states() -> Vec<Row> {
    vec![
        row("asked-unknown", vec![pod_with_scratch("web", "scratch,nothing")])
            .gives(&["backup Completed", "copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"])
            .but_ours(
                UNKNOWN,
                &[
                    "backup PartiallyFailed",
                    "copy web/scratch Completed",
                    "volume web/scratch: PodVolumeBackup succeeded",
                ],
            ),
        row("asked-not-mounted", {
            let pod = pod("web", "data", &[claimed("data", "data")]);
            vec![claim("data"), with(pod, "/spec/containers/0/volumeMounts", json!([]))]
        })
        .gives(SKIPPED)
        .but_ours(NOT_SAVED, LOST),
        row("asked-pending", vec![claim("data"), pending(pod_with_claim("web", "data"))])
            .gives(SKIPPED)
            .but_ours(NOT_SAVED, LOST),
        row("asked-succeeded", vec![claim("data"), succeeded(pod_with_claim("web", "data"))])
            .gives(SKIPPED)
            .but_ours(NOT_SAVED, LOST),
        row("asked-failed", vec![claim("data"), failed(pod_with_claim("web", "data"))])
            .gives(SKIPPED)
            .but_ours(NOT_SAVED, LOST),
        row("asked-succeeded-scratch", vec![succeeded(pod_with_scratch("web", "scratch"))])
            .gives(&["backup Completed", "backup warns"])
            .but_ours(NOT_SAVED, &["backup PartiallyFailed"]),
        row("asked-unbound", vec![claim_of("data", NO_CLASS), pending(pod_with_claim("web", "data"))])
            .gives(&["backup PartiallyFailed"]),
        row("asked-ephemeral", vec![pod("web", "data", &[ephemeral("data")])])
            .restored(Again::Whole)
            .gives(&[
                "backup PartiallyFailed",
                "copy web/data Failed",
                "claim web-data: skipped",
                "volume web/data: PodVolumeBackup failed",
                "restore Completed",
                "web is Pending",
            ])
            .but_ours(
                EPHEMERAL,
                &[
                    "backup Completed",
                    "copy web/data Completed",
                    "claim web-data: PodVolumeBackup succeeded",
                    "restore Completed",
                    "web/data same",
                ],
            ),
    ]
}

/// A claim that several pods use.
fn shared() -> Vec<Row> {
    let copied_by_other = ["backup Completed", "copy other/data Completed", "claim data: PodVolumeBackup succeeded"];
    vec![
        row("asked-shared", vec![claim("data"), pod_with_claim("web", "data"), pod_with_claim("other", "data")])
            .restored(Again::Whole)
            .gives(&and(&copied_by_other, &["restore Completed", "web/data same", "other/data same"])),
        row("asked-by-one-of-two", vec![claim("data"), pod_with_claim("web", "data"), pod_with_claim("other", "")])
            .restored(Again::Whole)
            .gives(&and(COPIED_CLAIM, &["restore Completed", "web/data same", "other/data same"])),
        row(
            "asked-beside-pending",
            vec![claim("data"), pod_with_claim("web", "data"), pending(pod_with_claim("other", "data"))],
        )
        .gives(&and(COPIED_CLAIM, &["backup warns"]))
        .but_ours("a claim that a running pod has copied is saved, whatever other pods do", COPIED_CLAIM),
    ]
}

/// Pods and claims of which a backup takes a part.
fn selected() -> Vec<Row> {
    let row = |name, objects| Row::new(name, Way::Labelled, objects);
    let labelled = || labelled_claim("data", "app", "web");
    vec![
        row("selected-both", vec![labelled(), pod_with_claim("web", "data")])
            .restored(Again::Whole)
            .gives(&and(COPIED_CLAIM, &["restore Completed", "web/data same"])),
        row("selected-pod", vec![claim("data"), pod_with_claim("web", "data")])
            .restored(Again::Whole)
            .gives(&and(COPIED_CLAIM, &["restore Completed", "web/data same"])),
        row("selected-claim", vec![labelled(), pod_with_claim("other", "data")]).gives(&[
            "backup Completed",
            "copy other/data Completed",
            "claim data: PodVolumeBackup succeeded",
        ]),
        row("selected-none", vec![claim("data"), pod_with_claim("other", "data")]).gives(&["backup Completed"]),
    ]
}

/// Labels and annotations that contradict what is asked for.
fn excluded() -> Vec<Row> {
    let excluded = "velero.io~1exclude-from-backup";
    vec![
        row(
            "asked-excluded-pod",
            vec![claim("data"), {
                let pod = pod_with_claim("web", "data");
                with(pod, &format!("/metadata/labels/{excluded}"), json!("true"))
            }],
        )
        .gives(&["backup Completed", "claim data: skipped"])
        .but_ours(NOT_SAVED, LOST),
        row(
            "asked-excluded-claim",
            vec![
                with(claim("data"), &format!("/metadata/labels/{excluded}"), json!("true")),
                pod_with_claim("web", "data"),
            ],
        )
        .gives(&["backup Completed", "copy web/data Completed"])
        .but_ours("the file about volumes names the claim of a copy, in the backup or not", COPIED_CLAIM),
        row(
            "asked-and-excluded",
            vec![claim("data"), {
                annotated(pod_with_claim("web", "data"), "backup.velero.io/backup-volumes-excludes", "data")
            }],
        )
        .gives(COPIED_CLAIM),
    ]
}
