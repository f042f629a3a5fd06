//! The data of volumes on its way, while a backup or restore runs: what node agents copy and move, with their bytes.

use k8s_openapi::api::core::v1::ObjectReference;
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

/// The data of a volume on its way.
trait Transfer: VeleroResource {
    fn told(self) -> Told;
}

/// A transfer whose status is as that of all of them; what it is about is said in its own words.
macro_rules! transfer {
    ($kind:ty, $spec:ident => $volume:expr) => {
        impl Transfer for $kind {
            fn told(self) -> Told {
                let (phase, $spec) = (self.status.phase().clone(), self.spec);
                Told { volume: $volume, phase, progress: self.status.progress, message: self.status.message }
            }
        }
    };
}

transfer!(PodVolumeBackup, spec => of_pod(&spec.pod, &spec.volume));
transfer!(PodVolumeRestore, spec => of_pod(&spec.pod, &spec.volume));
transfer!(DataUpload, spec => format!("{}/{}", spec.source_namespace, spec.source_pvc));
transfer!(DataDownload, spec => format!("{}/{}", spec.target_volume.namespace, spec.target_volume.pvc));

fn of_pod(pod: &ObjectReference, volume: &str) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{} {volume}", text(&pod.namespace), text(&pod.name))
}

/// The transfers of a backup.
pub(crate) async fn of_backup(user: &User, backup: &str) -> Markup {
    let label = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(backup));
    show::<PodVolumeBackup, DataUpload>(user, &label, ["Copied through file systems", "Moved from snapshots"]).await
}

/// The transfers of a restore.
pub(crate) async fn of_restore(user: &User, restore: &str) -> Markup {
    let label = format!("{}={}", labels::RESTORE_NAME, labels::valid_value(restore));
    show::<PodVolumeRestore, DataDownload>(user, &label, ["Copied into file systems", "Moved into volumes"]).await
}

async fn show<C: Transfer, M: Transfer>(user: &User, label: &str, [copied, moved]: [&str; 2]) -> Markup {
    let (copies, moves) = tokio::join!(list::<C>(user, label), list::<M>(user, label));
    html! { (table(copied, copies)) (table(moved, moves)) }
}

/// What is told, and whether there is more.
type Listed = Result<(Vec<Told>, bool), Problem>;

async fn list<K: Transfer>(user: &User, label: &str) -> Listed {
    user.must(Right::to("list", K::PLURAL)).await?;
    let found = user.api::<K>().list(&ListParams::default().labels(label).limit(MOST)).await;
    let found = user.checked(&format!("list {}", K::PLURAL), found)?;
    let more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok((found.items.into_iter().map(K::told).collect(), more))
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
            @if more { p { "and more: `describe --details` of the command names all of them" } }
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
