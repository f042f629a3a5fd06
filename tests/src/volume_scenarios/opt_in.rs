//! Volumes that the annotation of a pod asks for, by their kinds.

use serde_json::{Value, json};

use super::pods::{
    annotated, behind_others, claim, ephemeral, others, pending, pod, pod_with_claim, pod_with_scratch, succeeded, with,
};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED_CLAIM: &[&str] = &["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];

/// A claim that is asked for and not saved: the original warns.
const SKIPPED: &[&str] = &["backup Completed", "backup warns", "claim data: skipped"];
/// The same with ours: what was asked for and not done is an error.
const LOST: &[&str] = &["backup PartiallyFailed", "claim data: skipped"];
const NOT_SAVED: &str = "a volume that is asked for and not saved is an error, not a warning";
const UNKNOWN: &str = "a volume that is asked for and not there is a warning, not a line of the log";
const WITHOUT_DATA: &str = "who asks for a volume that is never copied is warned";

/// Lines and further ones.
fn and<'a>(lines: &[&'a str], further: &[&'a str]) -> Vec<&'a str> {
    [lines, further].concat()
}

pub(super) fn rows() -> Vec<Row> {
    [data(), without_data(), states(), excluded()].into_iter().flatten().collect()
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
        row(name, objects).gives(&["backup Completed"]).but_ours(WITHOUT_DATA, &["backup Completed", "backup warns"])
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
                    "backup Completed",
                    "backup warns",
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
        row("asked-succeeded", vec![claim("data"), succeeded(pod_with_claim("web", "data"))]).gives(SKIPPED),
        row("asked-shared", vec![claim("data"), pod_with_claim("web", "data"), pod_with_claim("other", "data")])
            .restored(Again::Whole)
            .gives(&[
                "backup Completed",
                "copy other/data Completed",
                "claim data: PodVolumeBackup succeeded",
                "restore Completed",
                "web/data same",
                "other/data same",
            ]),
        row("asked-ephemeral", vec![pod("web", "data", &[ephemeral("data")])])
            .gives(&[
                "backup PartiallyFailed",
                "copy web/data Failed",
                "claim web-data: skipped",
                "volume web/data: PodVolumeBackup failed",
            ])
            .but_ours(
                "the claim of a generic ephemeral volume is found; the original looks for a folder of the volume's name",
                &["backup Completed", "copy web/data Completed", "claim web-data: PodVolumeBackup succeeded"],
            ),
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
        .gives(&["backup Completed", "claim data: skipped"]),
        row(
            "asked-excluded-claim",
            vec![
                with(claim("data"), &format!("/metadata/labels/{excluded}"), json!("true")),
                pod_with_claim("web", "data"),
            ],
        )
        .gives(COPIED_CLAIM),
        row(
            "asked-and-excluded",
            vec![claim("data"), {
                annotated(pod_with_claim("web", "data"), "backup.velero.io/backup-volumes-excludes", "data")
            }],
        )
        .gives(COPIED_CLAIM),
    ]
}
