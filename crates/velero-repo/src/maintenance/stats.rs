//! What the tasks of a maintenance count, in the form and order of kopia.

use jiff::Timestamp;
use serde::Serialize;

/// Contents that are needed, and those that are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectStats {
    /// Contents no snapshot needs, and old enough.
    pub unreferenced_content_count: u64,
    /// Their bytes.
    pub unreferenced_content_size: u64,
    /// Contents marked as deleted; those that were marked before count as well.
    pub deleted_content_count: u64,
    /// Their bytes.
    pub deleted_content_size: u64,
    /// Contents no snapshot needs yet: a backup may be on its way.
    pub unreferenced_recent_content_count: u64,
    /// Their bytes.
    pub unreferenced_recent_content_size: u64,
    /// Contents snapshots need.
    pub in_use_content_count: u64,
    /// Their bytes.
    pub in_use_content_size: u64,
    /// Contents with manifests.
    pub in_use_system_content_count: u64,
    /// Their bytes.
    pub in_use_system_content_size: u64,
    /// Contents brought back.
    pub recovered_content_count: u64,
    /// Their bytes.
    pub recovered_content_size: u64,
}

/// Contents moved out of short packs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewriteStats {
    /// Contents to move.
    pub to_rewrite_content_count: u64,
    /// Their bytes.
    pub to_rewrite_content_size: u64,
    /// Contents moved.
    pub rewritten_content_count: u64,
    /// Their bytes.
    pub rewritten_content_size: u64,
    /// Contents of short packs that are too young.
    pub retained_content_count: u64,
    /// Their bytes.
    pub retained_content_size: u64,
}

/// The new deletion watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DropStats {
    /// Entries deleted up to here are gone.
    pub dropped_contents_deleted_before: Timestamp,
}

/// Packs and session markers that nothing names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackStats {
    /// Blobs to delete.
    pub unreferenced_pack_count: u64,
    /// Their bytes.
    pub unreferenced_total_size: u64,
    /// Blobs deleted.
    pub deleted_pack_count: u64,
    /// Their bytes.
    pub deleted_total_size: u64,
    /// Blobs that nothing names and that stay.
    pub retained_pack_count: u64,
    /// Their bytes.
    pub retained_total_size: u64,
}

/// An epoch whose indexes became one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactStats {
    /// How many blobs it replaces.
    pub superseded_index_blob_count: u64,
    /// Their bytes.
    pub superseded_index_total_size: u64,
    /// The epoch.
    pub epoch: u64,
}

/// The write epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdvanceStats {
    /// The write epoch from now on.
    pub current_epoch: u64,
    /// Whether it is a new one.
    pub was_advanced: bool,
}

/// Epochs that became one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeStats {
    /// The first.
    pub range_min_epoch: u64,
    /// The last.
    pub range_max_epoch: u64,
}

/// Markers that no longer say anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkerStats {
    /// Epoch markers.
    pub deleted_epoch_marker_blob_count: u64,
    /// Watermarks.
    pub deleted_watermark_blob_count: u64,
}

/// Index blobs whose compaction is old enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SupersededStats {
    /// Compactions must be older than this.
    pub max_replacement_time: Timestamp,
    /// Blobs deleted.
    pub deleted_blob_count: u64,
    /// Their bytes.
    pub deleted_total_size: u64,
}

/// Logs of kopia.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogStats {
    /// Logs to delete.
    pub to_delete_blob_count: u64,
    /// Their bytes.
    pub to_delete_blob_size: u64,
    /// Logs deleted.
    pub deleted_blob_count: u64,
    /// Their bytes.
    pub deleted_blob_size: u64,
    /// Logs that stay.
    pub retained_blob_count: u64,
    /// Their bytes.
    pub retained_blob_size: u64,
}
