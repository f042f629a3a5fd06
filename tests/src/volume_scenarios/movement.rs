//! Snapshots whose data is moved into a repository.

use serde_json::json;

use super::pods::{LATE_CLASS, NO_CLASS, claim, claim_of, pending, pod, pod_with_claim, pod_with_scratch, with};
use super::{Again, Row, Way};
use crate::volume_data::claimed;

const MOVED: [&str; 2] = ["backup Completed", "claim data: CSISnapshot moved succeeded"];

const NO_VOLUME: &str = "a claim without a volume has no data that could be missing";

pub(super) fn rows() -> Vec<Row> {
    let row = |name, objects| Row::new(name, Way::Moved, objects);
    let web = || pod_with_claim("web", "");
    let back = |further: &[&'static str]| [&MOVED[..], &["restore Completed"], further].concat();
    vec![
        row("moved-claim", vec![claim("data"), web()]).restored(Again::Whole).gives(&back(&["web/data same"])),
        row("moved-without-pod", vec![claim("data"), pod_with_claim("filler", "")])
            .without(&["filler"])
            .restored(Again::Whole)
            .reading(&["data"])
            .gives(&back(&["data same"])),
        row(
            "moved-two",
            vec![claim("data"), claim("more"), pod("web", "", &[claimed("data", "data"), claimed("more", "more")])],
        )
        .gives(&[&MOVED[..], &["claim more: CSISnapshot moved succeeded"]].concat()),
        row("moved-unbound", vec![claim_of("data", NO_CLASS)])
            .gives(&["backup PartiallyFailed"])
            .but_ours(NO_VOLUME, &["backup Completed", "backup warns"]),
        row("moved-late-class", vec![claim_of("data", LATE_CLASS), web()])
            .restored(Again::Whole)
            .gives(&back(&["web/data same"])),
        row("moved-late-without-pod", vec![claim_of("data", LATE_CLASS)])
            .gives(&["backup PartiallyFailed"])
            .but_ours(NO_VOLUME, &["backup Completed", "backup warns"]),
        row("moved-but-asked", vec![claim("data"), pod_with_claim("web", "data")]).gives(&[
            "backup Completed",
            "copy web/data Completed",
            "claim data: PodVolumeBackup succeeded",
        ]),
        row("moved-empty-dir", vec![pod_with_scratch("web", "")]).gives(&["backup Completed"]),
        row("moved-pending", vec![claim("data"), pending(pod_with_claim("web", ""))]).gives(&MOVED),
        row(
            "moved-excluded-claim",
            vec![with(claim("data"), "/metadata/labels/velero.io~1exclude-from-backup", json!("true")), web()],
        )
        .gives(&["backup Completed"]),
        row("moved-over-claim", vec![claim("data"), web()])
            .restored(Again::Whole)
            .over(&[claim("data"), pod_with_claim("resident", "")])
            .gives(&back(&["restore warns", "web/data new"])),
        row("moved-claims", vec![claim("data"), web()])
            .restored(Again::Claims)
            .reading(&["data"])
            .gives(&back(&["web is missing", "data same"])),
        row("moved-without-volumes", vec![claim("data"), web()])
            .restored(Again::WithoutVolumes)
            .gives(&back(&["web/data new"])),
    ]
}
