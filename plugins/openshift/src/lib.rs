//! What OpenShift needs in backups, restores and migrations.
//!
//! Items keep the JSON they have: what an action does not mean to change stays, fields it does not know too. Two
//! workflows: a Backup or Restore with the label `app.kubernetes.io/part-of: openshift-migration` is part of a migration
//! (CAM), any other is backup and restore.
//!
//! | module | for |
//! |---|---|
//! | `backup`, `restore` | one file a kind: a step is a pure function, and the edge that gets it the facts it needs |
//! | `shared` | what several steps do in the same way |
//! | `images` | copying images between registries |
//! | `lookups` | what is looked up in the cluster, once a backup or restore |
//! | `action`, `context` | from steps to actions of the server |
//! | [`settings`], [`compat`] | what an administrator can set |
//!
//! It runs built in ([`builtin`]) or as a plugin binary ([`plugins`]). Where there is no OpenShift its actions apply to
//! nothing.

mod action;
mod backup;
pub mod compat;
mod context;
mod images;
mod lookups;
mod names;
mod restore;
pub mod settings;
mod shared;
#[cfg(test)]
mod testing;
mod workflow;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use velero_cluster::{Cluster, Discovery};
use velero_plugin::sdk::Plugins;
use velero_plugin::{ActionSource, Actions, BackupItemAction, ItemBlockAction, RestoreItemAction, Result};

use crate::action::{Action, ServiceAccountBlock};
use crate::context::Context;
pub use crate::context::is_openshift;

/// The one item block action.
const SERVICE_ACCOUNT_BLOCK: &str = "openshift.io/02-serviceaccount-iba-plugin";

/// Steps that start operations under a host that keeps the process alive meanwhile; in the second version of the protocol
/// then.
const WITH_OPERATIONS: &[&str] = &["openshift.io/19-is-backup-plugin", "openshift.io/19-is-restore-plugin"];

/// Steps of the second version of the protocol whatever the host, for what they ask to wait for.
const SECOND_VERSION: &str = "openshift.io/04-imagestreamtag-restore-plugin";

/// What tells a host that keeps processes alive while operations go on.
const OUR_HOST: &str = "VELERO_PLUGIN_FURTHER_KINDS";

/// Whether the actions are part of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switch {
    /// Where the cluster is OpenShift.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// A position the switch does not have.
#[derive(Debug)]
pub struct UnknownSwitch {
    text: String,
}

impl fmt::Display for UnknownSwitch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is not one of auto, on, off", self.text)
    }
}

impl std::error::Error for UnknownSwitch {}

impl FromStr for Switch {
    type Err = UnknownSwitch;

    fn from_str(text: &str) -> Result<Self, UnknownSwitch> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(UnknownSwitch { text: text.to_owned() }),
        }
    }
}

/// The actions as part of the server, for one backup or restore. `namespace` is Velero's own. A preview copies no images
/// and waits for nothing.
pub fn builtin(
    cluster: &Cluster,
    discovery: &Discovery,
    namespace: &str,
    switch: Switch,
    preview: bool,
) -> Result<Actions> {
    let wanted = match switch {
        Switch::Auto => is_openshift(discovery),
        Switch::On => true,
        Switch::Off => false,
    };
    if !wanted {
        return Ok(Actions::default());
    }
    let context = Arc::new(Context::built_in(cluster, namespace, preview));
    let backup_item =
        backup::steps().into_iter().map(|step| Arc::new(action(&context, step)) as Arc<dyn BackupItemAction>);
    let restore_item =
        restore::steps().into_iter().map(|step| Arc::new(action(&context, step)) as Arc<dyn RestoreItemAction>);
    Actions::from_source(ActionSource {
        backup_item: backup_item.collect(),
        restore_item: restore_item.collect(),
        item_block: vec![Arc::new(ServiceAccountBlock(context)) as Arc<dyn ItemBlockAction>],
        ..ActionSource::default()
    })
}

/// The actions as a plugin binary.
pub fn plugins() -> Plugins {
    plugins_for(std::env::var_os(OUR_HOST).is_some())
}

fn plugins_for(outlives_calls: bool) -> Plugins {
    let context = Arc::new(Context::of_binary(outlives_calls));
    let second = |name: &str| name == SECOND_VERSION || (outlives_calls && WITH_OPERATIONS.contains(&name));
    let plugins = backup::steps().into_iter().fold(Plugins::new(), |plugins, step| match second(step.name()) {
        true => plugins.backup_item_action(action(&context, step)),
        false => plugins.backup_item_action_v1(action(&context, step)),
    });
    let plugins = restore::steps().into_iter().fold(plugins, |plugins, step| match second(step.name()) {
        true => plugins.restore_item_action(action(&context, step)),
        false => plugins.restore_item_action_v1(action(&context, step)),
    });
    plugins.item_block_action(ServiceAccountBlock(context))
}

fn action<S: ?Sized>(context: &Arc<Context>, step: Box<S>) -> Action<S> {
    Action { context: Arc::clone(context), step }
}

/// The names of all actions.
pub fn action_names() -> Vec<&'static str> {
    let backup = backup::steps().into_iter().map(|step| step.name());
    let restore = restore::steps().into_iter().map(|step| step.name());
    backup.chain(restore).chain([SERVICE_ACCOUNT_BLOCK]).collect()
}

/// What a mutex guards, also when somebody panicked who held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_run_in_the_order_of_their_numbers() {
        let number = |name: &str| name.strip_prefix("openshift.io/").unwrap()[..2].parse::<u32>().unwrap();
        for names in [
            backup::steps().iter().map(|step| step.name()).collect::<Vec<_>>(),
            restore::steps().iter().map(|step| step.name()).collect(),
        ] {
            assert!(names.is_sorted_by_key(|name| number(name)), "{names:?}");
        }
        assert_eq!(action_names().len(), 9 + 27 + 1);
    }
}
