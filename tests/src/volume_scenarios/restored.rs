//! Copies that are restored in unusual ways.

use serde_json::{Value, json};

use super::pods::{annotated, claim, labelled_claim, pod, pod_with_claim, pod_with_scratch, script};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED: [&str; 3] = ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];

fn row(name: &'static str, how: Again, lines: &[&str]) -> Row {
    Row::new(name, Way::Asked, vec![labelled_claim("data", "app", "web"), pod_with_claim("web", "data")])
        .restored(how)
        .gives(&[&COPIED[..], lines].concat())
}

/// A row whose claim has a name of its own: errors of the original name nothing else.
fn without_claim(name: &'static str, how: Again, claim_name: &'static str) -> Row {
    let pod = pod("web", "data", &[claimed("data", claim_name)]);
    let copied = ["backup Completed".to_owned(), "copy web/data Completed".to_owned()];
    let copied = [&copied[..], &[format!("claim {claim_name}: PodVolumeBackup succeeded")]].concat();
    let lines: Vec<&str> =
        copied.iter().map(String::as_str).chain(["restore PartiallyFailed", "web is Pending"]).collect();
    Row::new(name, Way::Asked, vec![claim(claim_name), pod]).known_by(&[claim_name]).restored(how).gives(&lines)
}

/// A claim that something else uses already.
fn used() -> Vec<Value> {
    vec![claim("data"), pod_with_claim("resident", "")]
}

pub(super) fn rows() -> Vec<Row> {
    [over(), parts(), scratch_without_volumes()].into_iter().flatten().collect()
}

/// Over what is there.
fn over() -> Vec<Row> {
    vec![
        row("again-claim-there", Again::Whole, &["restore Completed", "restore warns", "web/data same"]).over(&used()),
        row("again-pod-there", Again::Whole, &["restore Completed", "restore warns", "web/data new"])
            .over(&[claim("data"), pod_with_claim("web", "")]),
        row(
            "again-twice",
            Again::Twice,
            &["restore Completed", "second restore Completed", "second restore warns", "web/data same"],
        ),
        row("again-other-files-there", Again::Whole, &["restore Completed", "restore warns", "web/data plus other"])
            .over(&[claim("data"), script(pod_with_claim("resident", ""), "echo other > /volumes/data/other")]),
        row("again-update-claim-there", Again::Update, &["restore Completed", "restore warns", "web/data same"])
            .over(&used()),
        row("again-update-pod-there", Again::Update, &["restore Completed", "restore warns", "web/data new"])
            .over(&[claim("data"), pod_with_claim("web", "")]),
        Row::new(
            "again-hook",
            Way::Asked,
            vec![claim("data"), {
                let command = json!(["sh", "-c", "cp /volumes/data/random /volumes/data/by-hook"]).to_string();
                annotated(pod_with_claim("web", "data"), "post.hook.restore.velero.io/command", &command)
            }],
        )
        .restored(Again::Whole)
        .gives(&[&COPIED[..], &["restore Completed", "web/data plus by-hook"]].concat()),
    ]
}

/// A part of what is in the backup.
fn parts() -> Vec<Row> {
    vec![
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
        without_claim("again-pods", Again::Pods, "left-behind"),
        without_claim("again-without-claims", Again::WithoutClaims, "left-out"),
        row("again-pods-over-claim", Again::Pods, &["restore Completed", "web/data same"]).over(&used()),
    ]
}

fn scratch_without_volumes() -> Vec<Row> {
    vec![
        Row::new(
            "again-scratch-without-volumes",
            Way::Asked,
            vec![claim("data"), pod("web", "data,scratch", &[claimed("data", "data"), empty_dir("scratch")])],
        )
        .restored(Again::WithoutVolumes)
        .gives(
            &[
                &COPIED[..],
                &["copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"],
                &["restore Completed", "web/data same", "web/scratch same"],
            ]
            .concat(),
        )
        .but_ours(
            "restorePVs: false means copies too",
            &[
                &COPIED[..],
                &["copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"],
                &["restore Completed", "web/data new", "web/scratch new"],
            ]
            .concat(),
        ),
    ]
}
