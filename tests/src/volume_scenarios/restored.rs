//! Copies that are restored in unusual ways.

use serde_json::{Value, json};

use super::pods::{claim, pod_with_claim, pod_with_scratch, with};
use super::{Again, Row, Way};

const COPIED: [&str; 3] = ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];

fn row(name: &'static str, how: Again, lines: &[&str]) -> Row {
    let labels = json!({"app": "web"});
    let claim = with(claim("data"), "/metadata/labels", labels);
    Row::new(name, Way::Asked, vec![claim, pod_with_claim("web", "data")])
        .restored(how)
        .gives(&[&COPIED[..], lines].concat())
}

/// A claim that something else uses already.
fn used() -> Vec<Value> {
    vec![claim("data"), pod_with_claim("resident", "")]
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("again-claim-there", Again::Whole, &["restore Completed", "restore warns", "web/data same"]).over(&used()),
        row("again-pod-there", Again::Whole, &["restore Completed", "restore warns", "web/data new"])
            .over(&[claim("data"), pod_with_claim("web", "")]),
        row("again-twice", Again::Twice, &["restore Completed", "second restore Completed", "web/data same"]),
        row("again-without-volumes", Again::WithoutVolumes, &["restore Completed", "web/data same"]).but_ours(
            "restorePVs: false means copies too",
            &[&COPIED[..], &["restore Completed", "web/data new"]].concat(),
        ),
        row("again-labelled", Again::Labelled, &["restore Completed", "web/data same"]),
        Row::new(
            "again-other-label",
            Way::Asked,
            vec![claim("data"), pod_with_claim("web", "data"), pod_with_scratch("other", "scratch")],
        )
        .restored(Again::Labelled)
        .gives(
            &[
                &COPIED[..],
                &[
                    "copy other/scratch Completed",
                    "volume other/scratch: PodVolumeBackup succeeded",
                    "restore Completed",
                    "web/data same",
                    "other is missing",
                ],
            ]
            .concat(),
        ),
        row("again-claims", Again::Claims, &["restore Completed", "web is missing", "data empty"])
            .reading(&["data"])
            .but_ours(
                "a claim that is restored without its data is an error",
                &[&COPIED[..], &["restore PartiallyFailed", "web is missing", "data empty"]].concat(),
            ),
        row("again-pods", Again::Pods, &["restore Completed", "web/data same"]),
        row("again-without-claims", Again::WithoutClaims, &["restore PartiallyFailed", "web is Pending"]),
        row("again-pods-over-claim", Again::Pods, &["restore Completed", "web/data same"]).over(&used()),
    ]
}
