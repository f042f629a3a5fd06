//! All actions of a server, in the order they run.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::actions::{BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction};
use crate::error::{Error, Result};
use crate::kind::{full_name, is_valid_name};
use crate::volume_snapshotter::{SnapshotterSource, VolumeSnapshotter};

/// The actions one source brings, in any order.
#[derive(Clone, Default)]
pub struct ActionSource {
    /// Actions on items that are backed up.
    pub backup_item: Vec<Arc<dyn BackupItemAction>>,
    /// Actions that say what belongs together.
    pub item_block: Vec<Arc<dyn ItemBlockAction>>,
    /// Actions on items that are restored.
    pub restore_item: Vec<Arc<dyn RestoreItemAction>>,
    /// Actions on items of a backup that goes away.
    pub delete_item: Vec<Arc<dyn DeleteItemAction>>,
}

/// The actions of a server.
///
/// One source (the built-in ones, then each plugin binary) brings its actions sorted by name; sources follow each
/// other as they are appended.
#[derive(Clone, Default)]
pub struct Actions {
    all: ActionSource,
    snapshotters: Option<Arc<dyn SnapshotterSource>>,
}

impl Actions {
    /// The actions of one source.
    pub fn from_source(mut source: ActionSource) -> Result<Self> {
        source.backup_item.sort_by(|left, right| left.name().cmp(right.name()));
        source.item_block.sort_by(|left, right| left.name().cmp(right.name()));
        source.restore_item.sort_by(|left, right| left.name().cmp(right.name()));
        source.delete_item.sort_by(|left, right| left.name().cmp(right.name()));
        Self::in_order(source)
    }

    /// The actions of one source that run in the order they are given.
    pub(crate) fn in_order(source: ActionSource) -> Result<Self> {
        let mut actions = Self::default();
        actions.append(Self { all: source, snapshotters: None })?;
        Ok(actions)
    }

    /// Adds the actions of a further part of the same source: they take their places among those that are there.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        self.append(other)?;
        let snapshotters = self.snapshotters.take();
        *self = Self::from_source(std::mem::take(&mut self.all))?.with_snapshotters(snapshotters);
        Ok(())
    }

    /// Adds the actions of a further source behind those that are there.
    pub fn append(&mut self, other: Self) -> Result<()> {
        self.snapshotters = other.snapshotters.or(self.snapshotters.take());
        let all = &mut self.all;
        all.backup_item.extend(other.all.backup_item);
        all.item_block.extend(other.all.item_block);
        all.restore_item.extend(other.all.restore_item);
        all.delete_item.extend(other.all.delete_item);
        check("BackupItemAction", all.backup_item.iter().map(|action| action.name()))?;
        check("ItemBlockAction", all.item_block.iter().map(|action| action.name()))?;
        check("RestoreItemAction", all.restore_item.iter().map(|action| action.name()))?;
        check("DeleteItemAction", all.delete_item.iter().map(|action| action.name()))
    }

    /// The backup item actions in the order they run.
    pub fn backup_item(&self) -> &[Arc<dyn BackupItemAction>] {
        &self.all.backup_item
    }

    /// The item block actions in the order they run.
    pub fn item_block(&self) -> &[Arc<dyn ItemBlockAction>] {
        &self.all.item_block
    }

    /// The restore item actions in the order they run.
    pub fn restore_item(&self) -> &[Arc<dyn RestoreItemAction>] {
        &self.all.restore_item
    }

    /// The delete item actions in the order they run.
    pub fn delete_item(&self) -> &[Arc<dyn DeleteItemAction>] {
        &self.all.delete_item
    }

    /// The backup item action of that name. A name without a slash is one of `velero.io`.
    pub fn backup_item_action(&self, name: &str) -> Option<&Arc<dyn BackupItemAction>> {
        let full = full_name(name);
        self.all.backup_item.iter().find(|action| action.name() == full)
    }

    /// The restore item action of that name. A name without a slash is one of `velero.io`.
    pub fn restore_item_action(&self, name: &str) -> Option<&Arc<dyn RestoreItemAction>> {
        let full = full_name(name);
        self.all.restore_item.iter().find(|action| action.name() == full)
    }

    /// The same actions, with the snapshotters that a source finds.
    #[must_use]
    pub fn with_snapshotters(mut self, source: Option<Arc<dyn SnapshotterSource>>) -> Self {
        self.snapshotters = source;
        self
    }

    /// Where snapshotters are found, if anywhere.
    pub fn snapshotters(&self) -> Option<&Arc<dyn SnapshotterSource>> {
        self.snapshotters.as_ref()
    }

    /// The volume snapshotter of a VolumeSnapshotLocation.
    pub async fn volume_snapshotter(&self, location: &str) -> Result<Arc<dyn VolumeSnapshotter>> {
        match &self.snapshotters {
            Some(source) => source.snapshotter(location).await,
            None => {
                Err(Error::Failed(format!("volume snapshot location {location:?}: no snapshotters are known here")))
            }
        }
    }
}

fn check<'a>(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !is_valid_name(name) {
            return Err(Error::InvalidName { kind, name: name.to_owned() });
        }
        if !seen.insert(name) {
            return Err(Error::DuplicateName { kind, name: name.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::Value;
    use velero_api::v1::Backup;

    use super::*;
    use crate::{BackupItemOutcome, ResourceSelector};

    struct Named(&'static str);

    #[async_trait]
    impl BackupItemAction for Named {
        fn name(&self) -> &str {
            self.0
        }

        async fn applies_to(&self) -> Result<ResourceSelector> {
            Ok(ResourceSelector::default())
        }

        async fn execute(&self, _: &Value, _: &Backup) -> Result<BackupItemOutcome> {
            Ok(BackupItemOutcome::default())
        }
    }

    fn source(names: &[&'static str]) -> Result<Actions> {
        let actions = names.iter().map(|name| Arc::new(Named(name)) as Arc<dyn BackupItemAction>);
        Actions::from_source(ActionSource { backup_item: actions.collect(), ..ActionSource::default() })
    }

    #[test]
    fn a_source_is_sorted_and_sources_keep_their_order() {
        let mut actions = source(&["velero.io/pv", "velero.io/pod"]).unwrap();
        actions.append(source(&["example.com/b", "example.com/a"]).unwrap()).unwrap();
        let names: Vec<_> = actions.backup_item().iter().map(|action| action.name()).collect();
        assert_eq!(names, ["velero.io/pod", "velero.io/pv", "example.com/a", "example.com/b"]);
        assert!(actions.backup_item_action("pod").is_some());
        assert!(actions.backup_item_action("example.com/pod").is_none());
    }

    #[test]
    fn parts_of_one_source_are_sorted_together() {
        let mut actions = source(&["velero.io/pv", "velero.io/crd"]).unwrap();
        actions.merge(source(&["velero.io/csi"]).unwrap()).unwrap();
        let names: Vec<_> = actions.backup_item().iter().map(|action| action.name()).collect();
        assert_eq!(names, ["velero.io/crd", "velero.io/csi", "velero.io/pv"]);
    }

    #[test]
    fn two_actions_of_one_name_are_refused() {
        let mut actions = source(&["velero.io/pod"]).unwrap();
        let error = actions.append(source(&["velero.io/pod"]).unwrap()).unwrap_err();
        assert!(matches!(error, Error::DuplicateName { .. }));
    }
}
