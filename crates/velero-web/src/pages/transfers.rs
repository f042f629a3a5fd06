//! The data of volumes on its way, while a backup or restore runs: what node agents copy and move, with their bytes.

use kube::api::ListParams;
use maud::{Markup, html};
use velero_api::labels;
use velero_api::resource::VeleroResource;
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{DataMoveOperationProgress, DataMovePhase};

use super::parts;
use crate::problem::Problem;
use crate::text;
use crate::user::{Right, User};

/// How many transfers of each kind are shown.
const MOST: u32 = 100;

/// What is told of a transfer.
struct Told {
    volume: String,
    phase: DataMovePhase,
    progress: DataMoveOperationProgress,
    message: String,
}

/// The transfers of a backup.
pub(crate) async fn of_backup(user: &User, backup: &str) -> Markup {
    let label = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(backup));
    let copies = list(user, &label, |copy: PodVolumeBackup| Told {
        volume: format!("{}/{} {}", text_of(&copy.spec.pod.namespace), text_of(&copy.spec.pod.name), copy.spec.volume),
        phase: copy.status.phase().clone(),
        progress: copy.status.progress,
        message: copy.status.message,
    });
    let uploads = list(user, &label, |upload: DataUpload| Told {
        volume: format!("{}/{}", upload.spec.source_namespace, upload.spec.source_pvc),
        phase: upload.status.phase().clone(),
        progress: upload.status.progress,
        message: upload.status.message,
    });
    let (copies, uploads) = tokio::join!(copies, uploads);
    html! { (table("Copied through file systems", copies)) (table("Moved from snapshots", uploads)) }
}

/// The transfers of a restore.
pub(crate) async fn of_restore(user: &User, restore: &str) -> Markup {
    let label = format!("{}={}", labels::RESTORE_NAME, labels::valid_value(restore));
    let copies = list(user, &label, |copy: PodVolumeRestore| Told {
        volume: format!("{}/{} {}", text_of(&copy.spec.pod.namespace), text_of(&copy.spec.pod.name), copy.spec.volume),
        phase: copy.status.phase().clone(),
        progress: copy.status.progress,
        message: copy.status.message,
    });
    let downloads = list(user, &label, |download: DataDownload| Told {
        volume: format!("{}/{}", download.spec.target_volume.namespace, download.spec.target_volume.pvc),
        phase: download.status.phase().clone(),
        progress: download.status.progress,
        message: download.status.message,
    });
    let (copies, downloads) = tokio::join!(copies, downloads);
    html! { (table("Copied into file systems", copies)) (table("Moved into volumes", downloads)) }
}

fn text_of(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

/// What is told, and whether there is more.
type Listed = Result<(Vec<Told>, bool), Problem>;

async fn list<K: VeleroResource>(user: &User, label: &str, told: impl Fn(K) -> Told) -> Listed {
    let right = Right::to("list", K::PLURAL);
    user.must(right).await?;
    let found = user.api::<K>().list(&ListParams::default().labels(label).limit(MOST)).await;
    let found = user.checked(&format!("list {}", K::PLURAL), found)?;
    let more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok((found.items.into_iter().map(told).collect(), more))
}

fn table(heading: &str, listed: Listed) -> Markup {
    let (transfers, more) = match listed {
        Ok(listed) => listed,
        Err(problem) => return problem.note(),
    };
    html! {
        @if !transfers.is_empty() {
            h3 { (heading) }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Volume" } th { "Phase" } th { "Bytes" } th { "What is said of it" } } }
                tbody { @for told in &transfers { (row(told)) } }
            } }
            @if more { p { "and more" } }
        }
    }
}

fn row(told: &Told) -> Markup {
    let (done, total) = (told.progress.bytes_done.max(0), told.progress.total_bytes.max(0));
    html! {
        tr {
            td { (told.volume) }
            td { (parts::phase(told.phase.as_str())) }
            td {
                @if total > 0 { progress max=(total) value=(done.min(total)) aria-label="Progress" {} " " }
                (text::size(done)) @if total > 0 { " of " (text::size(total)) }
            }
            td { (told.message) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_says_how_many_bytes_are_through() {
        let told = |done, total| Told {
            volume: "shop/<b>web data".to_owned(),
            phase: DataMovePhase::InProgress,
            progress: DataMoveOperationProgress { bytes_done: done, total_bytes: total, ..Default::default() },
            message: "<script>".to_owned(),
        };
        let text = table("Copied", Ok((vec![told(1024, 4096), told(-5, 0)], true))).into_string();
        assert!(text.contains("1.0 KiB of 4.0 KiB") && text.contains("and more"), "{text}");
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
        assert_eq!(table("Copied", Ok((Vec::new(), false))).into_string(), "");
    }
}
