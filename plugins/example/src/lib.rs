//! A plugin of every kind, for vendors to start from and for tests.
//!
//! | plugin | kind | does |
//! |---|---|---|
//! | `example.velero.io/backup`, `…/backup-v1` | backup item action | marks the item; starts operations |
//! | `example.velero.io/restore`, `…/restore-v1` | restore item action | marks the item; starts operations; leaves items out |
//! | `example.velero.io/delete` | delete item action | looks at items of a backup that goes away |
//! | `example.velero.io/block` | item block action | names items that belong together |
//! | `example.velero.io/folder` | object store | keeps objects in a folder |
//! | `example.velero.io/volumes`, `…/volumes-v1` | volume snapshotter | keeps snapshots in a folder, "uploads" them for a while |
//! | `example.velero.io/data-mover` | backup and restore item action | creates a `DataMove` and follows it ([`data_mover`]) |
//!
//! The actions are called for items with the label `example.velero.io/plugin` (those of the first version:
//! `example.velero.io/plugin-v1`). Annotations of the item steer what they do ([`behaviour`]), so that every good and
//! bad day of a plugin can be had on demand.

pub mod backup;
pub mod behaviour;
pub mod data_mover;
pub mod folder_store;
pub mod operations;
pub mod others;
pub mod restore;
pub mod volumes;

use velero_plugin::sdk::Plugins;

/// The domain of all names here.
pub const DOMAIN: &str = "example.velero.io";

/// Everything the plugin binary brings.
pub fn plugins() -> Plugins {
    Plugins::new()
        .backup_item_action(backup::Action)
        .backup_item_action_v1(backup::FirstVersion)
        .restore_item_action(restore::Action)
        .restore_item_action_v1(restore::FirstVersion)
        .delete_item_action(others::DeleteAction)
        .item_block_action(others::BlockAction)
        .object_store(folder_store::Provider)
        .volume_snapshotter(volumes::Snapshotter::new("example.velero.io/volumes"))
        .volume_snapshotter_v1(volumes::Snapshotter::new("example.velero.io/volumes-v1"))
        .backup_item_action(data_mover::BackupAction::default())
        .restore_item_action(data_mover::RestoreAction::default())
}
