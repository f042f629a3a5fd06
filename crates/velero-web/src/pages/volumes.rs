//! What became of volumes, in a backup and in a restore, with their bytes.

use maud::{Markup, html};
use velero_api::records::{BackupVolumeInfo, RestoreVolumeInfo};

use super::paged::Paged;
use crate::text;

/// How many volumes a page of the list has.
const PAGE: usize = 100;

/// What a backup did with volumes.
pub(crate) fn saved(volumes: &[BackupVolumeInfo], paged: &Paged) -> Markup {
    let total: i64 = volumes.iter().filter_map(size).fold(0, i64::saturating_add);
    html! {
        @if !volumes.is_empty() {
            h2 { "Volumes" }
            p { (volumes.len()) " volumes, " (text::size(total)) " in all" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Claim" } th { "Volume" } th { "How" } th { "Size" } th { "New" } th { "What became of it" } } }
                tbody {
                    @for volume in paged.part(volumes, PAGE) {
                        tr {
                            td { (volume.pvc_namespace) "/" (volume.pvc_name) }
                            td { (volume.pv_name) }
                            td { (method(volume.backup_method.as_ref().map(|method| method.as_str()), volume.snapshot_data_moved)) }
                            td { (bytes(size(volume))) }
                            td { (bytes(new_bytes(volume))) }
                            td { (end(volume)) }
                        }
                    }
                }
            } }
            (paged.pager(volumes.len(), PAGE))
        }
    }
}

/// What a restore did with volumes.
pub(crate) fn restored(volumes: &[RestoreVolumeInfo], paged: &Paged) -> Markup {
    html! {
        @if !volumes.is_empty() {
            h2 { "Volumes" }
            p { (volumes.len()) " volumes" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Claim" } th { "Volume" } th { "How" } th { "Size" } } }
                tbody {
                    @for volume in paged.part(volumes, PAGE) {
                        tr {
                            td { (volume.pvc_namespace) "/" (volume.pvc_name) }
                            td { (volume.pv_name) }
                            td { (method(volume.restore_method.as_ref().map(|method| method.as_str()), volume.snapshot_data_moved)) }
                            td { (bytes(restored_size(volume))) }
                        }
                    }
                }
            } }
            (paged.pager(volumes.len(), PAGE))
        }
    }
}

fn method(method: Option<&str>, moved: bool) -> Markup {
    html! { (method.unwrap_or("–")) @if moved { ", data moved" } }
}

fn bytes(size: Option<i64>) -> String {
    size.map_or_else(|| "–".to_owned(), text::size)
}

fn size(volume: &BackupVolumeInfo) -> Option<i64> {
    let moved = volume.snapshot_data_movement_info.as_ref().map(|info| info.size);
    let copied = volume.pvb_info.as_ref().map(|info| info.size);
    let snapshot = volume.csi_snapshot_info.as_ref().map(|info| info.size);
    moved.or(copied).or(snapshot)
}

/// What the backup before did not have.
fn new_bytes(volume: &BackupVolumeInfo) -> Option<i64> {
    let moved = volume.snapshot_data_movement_info.as_ref().map(|info| info.incremental_size);
    let copied = volume.pvb_info.as_ref().map(|info| info.incremental_size);
    moved.or(copied).filter(|bytes| *bytes > 0)
}

fn restored_size(volume: &RestoreVolumeInfo) -> Option<i64> {
    let moved = volume.snapshot_data_movement_info.as_ref().map(|info| info.size);
    let copied = volume.pvr_info.as_ref().map(|info| info.size);
    let snapshot = volume.csi_snapshot_info.as_ref().map(|info| info.size);
    moved.or(copied).or(snapshot)
}

fn end(volume: &BackupVolumeInfo) -> Markup {
    html! {
        @if volume.skipped { span.doubtful { "left out" } @if !volume.skipped_reason.is_empty() { ": " (volume.skipped_reason) } }
        @else if let Some(result) = &volume.result {
            @if result.as_str() == "succeeded" { span.good { "saved" } } @else { span.bad { (result.as_str()) } }
        } @else { span.none { "not told" } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pages::paged::Lists;

    #[test]
    fn volumes_are_told_with_their_bytes_and_markup_is_text() {
        let volume = |name: &str, size: i64| -> BackupVolumeInfo {
            serde_json::from_value(json!({"pvcName": name, "pvcNamespace": "shop", "backupMethod": "PodVolumeBackup",
                "result": "succeeded", "pvbInfo": {"size": size, "incrementalSize": 1024}}))
            .unwrap()
        };
        let first = Lists::default().volumes();
        let text = saved(&[volume("<b>", 1 << 30), volume("b", 1 << 30)], &first).into_string();
        assert!(
            text.contains("2 volumes, 2.0 GiB in all") && text.contains("1.0 KiB") && !text.contains("<b>"),
            "{text}"
        );
        let left_out: BackupVolumeInfo =
            serde_json::from_value(json!({"skipped": true, "skippedReason": "<i>by policy"})).unwrap();
        let text = saved(&[left_out], &first).into_string();
        assert!(text.contains("left out") && text.contains("&lt;i&gt;by policy"), "{text}");
        assert_eq!(saved(&[], &first).into_string(), "");
        let many: Vec<_> = (0..5000).map(|number| volume(&format!("data-{number}"), i64::MAX)).collect();
        let text = saved(&many, &first).into_string();
        assert!(text.contains("5000 volumes") && text.contains("?volumes=1"), "{text}");
        assert!(text.len() < 100 << 10, "{} bytes", text.len());
    }
}
