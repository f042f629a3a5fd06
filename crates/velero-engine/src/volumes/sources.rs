//! Where the data of volumes comes from, in words: what a dry run says of the volumes of an object that would be made.

use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo, VolumeResult};
use velero_rules::pod_volumes::copies_of_pod;

use super::restore_context::{RestoreContext, Wishes};
use super::{CLAIMS, PODS, VOLUMES};
use crate::restore::Item;

impl RestoreContext<'_> {
    /// Where the data of an object would come from; nothing when it has none, or none is wanted.
    pub(super) fn sources(&self, item: &Item, object: &Value) -> Vec<String> {
        let (wishes, namespace) = (&self.volumes.wishes, item.original.as_deref().unwrap_or_default());
        match &*item.resource {
            PODS if wishes.restore_copies => {
                let infos = self.volumes.of_pod(namespace, &item.name);
                let copies = infos.filter_map(|info| info.pvb_info.as_ref());
                copies_of_pod(copies, namespace, object)
                    .into_values()
                    .map(|copy| of_copy(copy, self.location))
                    .collect()
            }
            CLAIMS => of_claim(wishes, self.volumes.of_claim(namespace, &item.name)),
            VOLUMES if wishes.restore_data => {
                self.volumes.of_volume(&item.name).into_iter().filter_map(of_native_snapshot).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Where the data of a claim would come from. A snapshot that failed has none, and without CSI nobody can use one.
fn of_claim<'i>(wishes: &Wishes, infos: impl Iterator<Item = &'i BackupVolumeInfo>) -> Vec<String> {
    let is_usable = |info: &&BackupVolumeInfo| {
        wishes.restore_data && wishes.features.csi() && info.result != Some(VolumeResult::Failed)
    };
    infos.filter(is_usable).filter_map(of_snapshot).collect()
}

fn of_copy(copy: &PodVolumeInfo, location: &str) -> String {
    let PodVolumeInfo { volume_name, size, snapshot_handle, pod_namespace, .. } = copy;
    format!(
        "volume {volume_name} gets {size} bytes from snapshot {snapshot_handle} in the repository of namespace {pod_namespace} in \
         location {location}"
    )
}

fn of_snapshot(info: &BackupVolumeInfo) -> Option<String> {
    if let Some(moved) = info.snapshot_data_movement_info.as_ref().filter(|_| info.snapshot_data_moved) {
        return Some(format!(
            "it gets {} bytes from snapshot {} that a data mover has put into a repository",
            moved.size, moved.snapshot_handle
        ));
    }
    let snapshot = info.csi_snapshot_info.as_ref()?;
    Some(format!(
        "it gets {} bytes from CSI snapshot {} of driver {}",
        snapshot.size, snapshot.snapshot_handle, snapshot.driver
    ))
}

fn of_native_snapshot(info: &BackupVolumeInfo) -> Option<String> {
    let snapshot = info.native_snapshot_info.as_ref()?;
    Some(format!("it is made of snapshot {}", snapshot.snapshot_handle))
}

#[cfg(test)]
mod tests {
    use velero_api::records::{CsiSnapshotInfo, SnapshotDataMovementInfo};

    use super::*;

    #[test]
    fn where_data_comes_from_is_said_with_its_size() {
        let copy = PodVolumeInfo {
            volume_name: "data".to_owned(),
            size: 4096,
            snapshot_handle: "k1".to_owned(),
            pod_namespace: "shop".to_owned(),
            ..PodVolumeInfo::default()
        };
        let said = of_copy(&copy, "default");
        assert!(
            said.starts_with("volume data gets 4096 bytes from snapshot k1 in the repository of namespace shop"),
            "{said}"
        );
        let csi =
            CsiSnapshotInfo { size: 7, snapshot_handle: "h".to_owned(), driver: "d".to_owned(), ..Default::default() };
        let mut info = BackupVolumeInfo { csi_snapshot_info: Some(csi), ..BackupVolumeInfo::default() };
        assert_eq!(of_snapshot(&info).as_deref(), Some("it gets 7 bytes from CSI snapshot h of driver d"));
        let moved = SnapshotDataMovementInfo { size: 9, snapshot_handle: "m".to_owned(), ..Default::default() };
        (info.snapshot_data_moved, info.snapshot_data_movement_info) = (true, Some(moved));
        assert!(of_snapshot(&info).is_some_and(|said| said.contains("9 bytes from snapshot m")));
        assert_eq!(of_snapshot(&BackupVolumeInfo::default()), None);
    }

    #[test]
    fn nothing_is_promised_of_a_snapshot_that_failed_or_that_nobody_can_use() {
        let snapshot = Some(CsiSnapshotInfo::default());
        let mut info = BackupVolumeInfo { csi_snapshot_info: snapshot, ..BackupVolumeInfo::default() };
        let wishes = |restore_data, features: &[&str]| {
            let features = features.iter().copied().collect();
            Wishes { restore_data, restore_copies: restore_data, features }
        };
        assert_eq!(of_claim(&wishes(true, &["EnableCSI"]), [&info].into_iter()).len(), 1);
        for wishes in [wishes(true, &[]), wishes(false, &["EnableCSI"])] {
            assert!(of_claim(&wishes, [&info].into_iter()).is_empty());
        }
        info.result = Some(VolumeResult::Failed);
        assert!(of_claim(&wishes(true, &["EnableCSI"]), [&info].into_iter()).is_empty());
    }
}
