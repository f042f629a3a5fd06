//! Volumes that the annotation of a pod asks for, by their kinds.

use serde_json::json;

use super::pods::{
    annotated, behind_others, claim, ephemeral, others, pending, pod, pod_with_claim, pod_with_scratch, succeeded, with,
};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED_CLAIM: &[&str] =
    &["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];

/// Lines and further ones.
fn and<'a>(lines: &[&'a str], further: &[&'a str]) -> Vec<&'a str> {
    [lines, further].concat()
}

pub(super) fn rows() -> Vec<Row> {
    let row = |name, objects| Row::new(name, Way::Asked, objects);
    let both = [claimed("data", "data"), empty_dir("scratch")];
    let [map, secret, projected, host, downward] = [0, 1, 2, 3, 4].map(|index| others()[index].clone());
    let of_kind = |name, volume: &serde_json::Value, asked: &str| {
        let mut objects = behind_others();
        objects.push(pod("web", asked, &[volume.clone()]));
        row(name, objects)
    };
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
        of_kind("asked-config-map", &map, "map").gives(&["backup Completed"]),
        of_kind("asked-secret", &secret, "secret").gives(&["backup Completed"]),
        of_kind("asked-projected", &projected, "projected").gives(&["backup Completed"]),
        of_kind("asked-host-path", &host, "host").gives(&["backup Completed"]),
        of_kind("asked-downward", &downward, "downward").gives(&["backup Completed"]),
        row("asked-unknown", vec![pod_with_scratch("web", "scratch,nothing")]).gives(&[
            "backup Completed",
            "copy web/scratch Completed",
            "volume web/scratch: PodVolumeBackup succeeded",
        ]),
        row("asked-pending", vec![claim("data"), pending(pod_with_claim("web", "data"))])
            .gives(&["backup Completed", "claim data: skipped"]),
        row("asked-succeeded", vec![claim("data"), succeeded(pod_with_claim("web", "data"))])
            .gives(&["backup Completed", "claim data: skipped"]),
        row("asked-shared", vec![claim("data"), pod_with_claim("web", "data"), pod_with_claim("other", "data")])
            .restored(Again::Whole)
            .gives(&and(COPIED_CLAIM, &["restore Completed", "web/data same", "other/data same"])),
        row("asked-ephemeral", vec![pod("web", "data", &[ephemeral("data")])])
            .restored(Again::Whole)
            .gives(&[
                "backup Completed",
                "copy web/data Completed",
                "claim web-data: PodVolumeBackup succeeded",
                "restore Completed",
                "web/data same",
            ]),
        row(
            "asked-excluded-pod",
            vec![claim("data"), {
                let pod = pod_with_claim("web", "data");
                with(pod, "/metadata/labels/velero.io~1exclude-from-backup", json!("true"))
            }],
        )
        .gives(&["backup Completed", "claim data: skipped"]),
        row(
            "asked-excluded-claim",
            vec![with(claim("data"), "/metadata/labels", json!({"velero.io/exclude-from-backup": "true"})), {
                pod_with_claim("web", "data")
            }],
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
