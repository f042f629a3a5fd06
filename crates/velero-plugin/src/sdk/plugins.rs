//! What a plugin binary brings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use velero_store::ObjectStoreHandle;

use crate::kind::is_valid_name;
use crate::{
    BackupItemAction, DeleteItemAction, Error, ItemBlockAction, PluginKind, RestoreItemAction, Result,
    VolumeSnapshotter,
};

/// Opens buckets of an object store.
#[async_trait]
pub trait ObjectStoreProvider: Send + Sync {
    /// The name, such as `velero.io/aws`.
    fn name(&self) -> &str;

    /// Opens a bucket with the config of a BackupStorageLocation.
    async fn open(&self, bucket: &str, config: &BTreeMap<String, String>) -> Result<ObjectStoreHandle>;
}

/// Plugins of one kind by name.
pub(crate) type Named<P> = BTreeMap<String, Arc<P>>;

/// What a plugin binary brings: any number of plugins of each kind.
#[derive(Default, Clone)]
pub struct Plugins {
    pub(crate) backup_item_v1: Named<dyn BackupItemAction>,
    pub(crate) backup_item: Named<dyn BackupItemAction>,
    pub(crate) restore_item_v1: Named<dyn RestoreItemAction>,
    pub(crate) restore_item: Named<dyn RestoreItemAction>,
    pub(crate) delete_item: Named<dyn DeleteItemAction>,
    pub(crate) item_block: Named<dyn ItemBlockAction>,
    pub(crate) object_stores: Named<dyn ObjectStoreProvider>,
    pub(crate) snapshotters: Named<dyn VolumeSnapshotter>,
    /// Those among the snapshotters that are of the first version to every host.
    first_version: BTreeSet<String>,
    repeated: Vec<(PluginKind, String)>,
}

/// Adds a plugin, or notes that its name is taken.
macro_rules! add {
    ($self:ident, $kind:ident, $map:ident, $plugin:expr) => {{
        let name = $plugin.name().to_owned();
        if $self.$map.insert(name.clone(), Arc::new($plugin)).is_some() {
            $self.repeated.push((PluginKind::$kind, name));
        }
        $self
    }};
}

impl Plugins {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a backup item action.
    #[must_use]
    pub fn backup_item_action(mut self, action: impl BackupItemAction + 'static) -> Self {
        add!(self, BackupItemActionV2, backup_item, action)
    }

    /// Adds a backup item action in the first version of the protocol, for hosts that know no other. It cannot start
    /// operations.
    #[must_use]
    pub fn backup_item_action_v1(mut self, action: impl BackupItemAction + 'static) -> Self {
        add!(self, BackupItemAction, backup_item_v1, action)
    }

    /// Adds a restore item action.
    #[must_use]
    pub fn restore_item_action(mut self, action: impl RestoreItemAction + 'static) -> Self {
        add!(self, RestoreItemActionV2, restore_item, action)
    }

    /// Adds a restore item action in the first version of the protocol, for hosts that know no other. It cannot start
    /// operations.
    #[must_use]
    pub fn restore_item_action_v1(mut self, action: impl RestoreItemAction + 'static) -> Self {
        add!(self, RestoreItemAction, restore_item_v1, action)
    }

    /// Adds a delete item action.
    #[must_use]
    pub fn delete_item_action(mut self, action: impl DeleteItemAction + 'static) -> Self {
        add!(self, DeleteItemAction, delete_item, action)
    }

    /// Adds an item block action.
    #[must_use]
    pub fn item_block_action(mut self, action: impl ItemBlockAction + 'static) -> Self {
        add!(self, ItemBlockAction, item_block, action)
    }

    /// Adds an object store.
    #[must_use]
    pub fn object_store(mut self, provider: impl ObjectStoreProvider + 'static) -> Self {
        add!(self, ObjectStore, object_stores, provider)
    }

    /// Adds a volume snapshotter. A host that knows the second version of the protocol, as ours does, follows the
    /// uploads of its snapshots; to others it is one of the first version.
    #[must_use]
    pub fn volume_snapshotter(mut self, snapshotter: impl VolumeSnapshotter + 'static) -> Self {
        add!(self, VolumeSnapshotterV2, snapshotters, snapshotter)
    }

    /// Adds a volume snapshotter in the first version of the protocol: its snapshots are complete once they are taken.
    #[must_use]
    pub fn volume_snapshotter_v1(mut self, snapshotter: impl VolumeSnapshotter + 'static) -> Self {
        self.first_version.insert(snapshotter.name().to_owned());
        add!(self, VolumeSnapshotter, snapshotters, snapshotter)
    }

    /// Kinds and names as a host lists them. Hosts refuse a binary with a kind they do not know, so snapshotters are
    /// listed in the version the host knows.
    pub(crate) fn list(&self, host_knows_snapshotters_v2: bool) -> Vec<(PluginKind, String)> {
        let names = |kind: PluginKind| -> Vec<String> {
            match kind {
                PluginKind::BackupItemAction => self.backup_item_v1.keys().cloned().collect(),
                PluginKind::BackupItemActionV2 => self.backup_item.keys().cloned().collect(),
                PluginKind::RestoreItemAction => self.restore_item_v1.keys().cloned().collect(),
                PluginKind::RestoreItemActionV2 => self.restore_item.keys().cloned().collect(),
                PluginKind::DeleteItemAction => self.delete_item.keys().cloned().collect(),
                PluginKind::ItemBlockAction => self.item_block.keys().cloned().collect(),
                PluginKind::ObjectStore => self.object_stores.keys().cloned().collect(),
                PluginKind::VolumeSnapshotter | PluginKind::VolumeSnapshotterV2 => {
                    let second = |name: &String| host_knows_snapshotters_v2 && !self.first_version.contains(name);
                    let wanted = kind == PluginKind::VolumeSnapshotterV2;
                    self.snapshotters.keys().filter(|name| second(name) == wanted).cloned().collect()
                }
            }
        };
        PluginKind::ALL.into_iter().flat_map(|kind| names(kind).into_iter().map(move |name| (kind, name))).collect()
    }

    /// Refuses what a host would refuse.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some((kind, name)) = self.repeated.first() {
            return Err(Error::DuplicateName { kind: kind.as_str(), name: name.clone() });
        }
        match self.list(true).into_iter().find(|(_, name)| !is_valid_name(name)) {
            Some((kind, name)) => Err(Error::InvalidName { kind: kind.as_str(), name }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use velero_api::v1::Backup;

    use super::*;
    use crate::{BackupItemOutcome, ResourceSelector, VolumeInfo};

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

    #[async_trait]
    impl VolumeSnapshotter for Named {
        fn name(&self) -> &str {
            self.0
        }

        async fn init(&self, _: &BTreeMap<String, String>) -> Result<()> {
            Ok(())
        }

        async fn create_volume_from_snapshot(&self, _: &str, _: &VolumeInfo, _: &str) -> Result<String> {
            Ok(String::new())
        }

        async fn get_volume_info(&self, _: &str, _: &str) -> Result<VolumeInfo> {
            Ok(VolumeInfo::default())
        }

        async fn create_snapshot(&self, _: &str, _: &str, _: &BTreeMap<String, String>) -> Result<String> {
            Ok(String::new())
        }

        async fn delete_snapshot(&self, _: &str) -> Result<()> {
            Ok(())
        }

        async fn get_volume_id(&self, _: &Value) -> Result<Option<String>> {
            Ok(None)
        }

        async fn set_volume_id(&self, persistent_volume: &Value, _: &str) -> Result<Value> {
            Ok(persistent_volume.clone())
        }
    }

    #[test]
    fn plugins_are_listed_by_version_and_name() {
        let plugins = Plugins::new()
            .backup_item_action(Named("a.io/z"))
            .backup_item_action(Named("a.io/b"))
            .backup_item_action_v1(Named("a.io/y"));
        let listed: Vec<_> = plugins.list(true).into_iter().map(|(kind, name)| format!("{kind} {name}")).collect();
        assert_eq!(listed, ["BackupItemAction a.io/y", "BackupItemActionV2 a.io/b", "BackupItemActionV2 a.io/z"]);
    }

    #[test]
    fn a_snapshotter_is_listed_in_the_version_the_host_knows() {
        let plugins = Plugins::new().volume_snapshotter(Named("a.io/b"));
        assert_eq!(plugins.list(true), [(PluginKind::VolumeSnapshotterV2, "a.io/b".to_owned())]);
        assert_eq!(plugins.list(false), [(PluginKind::VolumeSnapshotter, "a.io/b".to_owned())]);
        let first = Plugins::new().volume_snapshotter_v1(Named("a.io/b"));
        assert_eq!(first.list(true), [(PluginKind::VolumeSnapshotter, "a.io/b".to_owned())]);
    }

    #[test]
    fn a_name_that_is_taken_or_bad_is_refused() {
        let twice = Plugins::new().backup_item_action(Named("a.io/b")).backup_item_action(Named("a.io/b"));
        assert!(matches!(twice.check(), Err(Error::DuplicateName { .. })));
        assert!(matches!(Plugins::new().backup_item_action(Named("b")).check(), Err(Error::InvalidName { .. })));
        assert!(Plugins::new().backup_item_action(Named("a.io/b")).check().is_ok());
    }
}
