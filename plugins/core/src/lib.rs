//! The built-in actions that need no volume data.
//!
//! | action | on | does |
//! |---|---|---|
//! | `velero.io/pv` | claims | drops what ties a bound claim to its past; adds its volume |
//! | `velero.io/pod` | pods | adds the claims and the priority class |
//! | `velero.io/service-account` | service accounts | adds cluster role bindings and cluster roles |
//! | `velero.io/crd-remap-version` | CRDs | stores one made through v1beta1 as v1beta1 |
//!
//! The item block actions `velero.io/pod`, `velero.io/pvc` and `velero.io/service-account` follow the same relations.
//! Relations that can only be found by looking at all objects are [`indexes`] built once a backup. The actions on items
//! that are restored are in [`restore`].

pub mod indexes;
pub mod persistent_volume_claim;
pub mod pod;
pub mod remap_crd_version;
pub mod restore;
pub mod service_account;

use std::sync::Arc;

use velero_api::FeatureFlags;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::{ActionSource, Actions, BackupItemAction, ItemBlockAction, Result};

use crate::indexes::{BindingIndex, ClaimGroupIndex, MountIndex};

/// The built-in actions for one backup or one restore; what they look up in the cluster is looked up when first needed
/// and kept as long as they live. `namespace` is Velero's own, where plugin configs are.
pub fn builtin(cluster: &Cluster, discovery: &Discovery, features: &FeatureFlags, namespace: &str) -> Result<Actions> {
    let bindings = Arc::new(BindingIndex::new(cluster, discovery));
    let mut backup_item: Vec<Arc<dyn BackupItemAction>> = vec![
        Arc::new(persistent_volume_claim::BackupAction),
        Arc::new(pod::BackupAction),
        Arc::new(service_account::BackupAction::new(Arc::clone(&bindings))),
    ];
    // With all versions in the archive there is no need to choose one.
    if !features.api_group_versions() {
        backup_item.push(Arc::new(remap_crd_version::BackupAction::new(cluster, discovery)));
    }
    let claims = persistent_volume_claim::BlockAction::new(MountIndex::new(cluster), ClaimGroupIndex::new(cluster));
    let item_block: Vec<Arc<dyn ItemBlockAction>> =
        vec![Arc::new(pod::BlockAction), Arc::new(claims), Arc::new(service_account::BlockAction::new(bindings))];
    let restore_item = restore::actions(cluster, namespace);
    Actions::from_source(ActionSource { backup_item, item_block, restore_item, ..ActionSource::default() })
}
