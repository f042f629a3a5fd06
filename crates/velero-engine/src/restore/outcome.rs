//! What a restore came to, and what one would come to.

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use velero_api::records::{RestoreOperation, RestoreVolumeInfo};
use velero_api::v1::{HookStatus, RestoreProgress};
use velero_rules::difference::{self, Change};

use crate::ItemList;

/// What a restore came to. Warnings and errors are in the journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RestoreOutcome {
    /// Items that were handled, and the same number again: nothing is left to do.
    pub progress: RestoreProgress,
    /// What became of each item, by `<apiVersion>/<Kind>`: `namespace/name(created)`.
    pub resource_list: ItemList,
    /// Operations that were started and go on.
    pub operations: Vec<RestoreOperation>,
    /// What was done with volumes.
    pub volumes: Vec<RestoreVolumeInfo>,
}

/// What still goes on after the last object: volumes that are filled from copies, hooks in restored pods, and claims whose
/// new volumes are awaited. Dropping it ends all of it. What is lost by a panic each tells itself (`crate::fault`).
#[derive(Debug, Default)]
pub struct RunningHooks {
    pub(crate) pods: JoinSet<HookStatus>,
    pub(crate) volumes: JoinSet<()>,
    pub(crate) fillings: JoinSet<Vec<RestoreVolumeInfo>>,
}

impl RunningHooks {
    /// Whether nothing goes on.
    pub fn is_empty(&self) -> bool {
        !self.has_hooks() && !self.has_volumes() && self.fillings.is_empty()
    }

    /// Waits until the volumes are filled that come from copies, well or not; gives what is to be said of them in the
    /// files of the restore. What went wrong is in the journal then.
    pub async fn wait_for_fillings(&mut self) -> Vec<RestoreVolumeInfo> {
        let mut filled = Vec::new();
        while let Some(pod) = self.fillings.join_next().await {
            filled.extend(pod.unwrap_or_default());
        }
        let key = |info: &RestoreVolumeInfo| {
            let volume = info
                .pvr_info
                .as_ref()
                .map(|info| [&info.pod_namespace, &info.pod_name, &info.volume_name].map(String::clone));
            volume.unwrap_or_default()
        };
        filled.sort_by_key(key);
        filled
    }

    /// Whether pods have hooks.
    pub fn has_hooks(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Whether new volumes are awaited.
    pub fn has_volumes(&self) -> bool {
        !self.volumes.is_empty()
    }

    /// Waits until all has ended; what went wrong is in the journal then.
    pub async fn wait(mut self) -> HookStatus {
        let mut all = HookStatus::default();
        while self.volumes.join_next().await.is_some() {}
        while let Some(pod) = self.pods.join_next().await {
            let pod = pod.unwrap_or_default();
            all.hooks_attempted += pod.hooks_attempted;
            all.hooks_failed += pod.hooks_failed;
        }
        all
    }
}

/// What a restore would do to each object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// One entry an object, in the order they would be written.
    pub items: Vec<ItemPreview>,
}

/// What a restore would do to one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemPreview {
    /// What would happen.
    pub action: PreviewAction,
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Type of the object, such as `deployments.apps`.
    pub resource: String,
    /// The namespace it would be in; none for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The namespace it has in the backup, where another one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What would change in, or differs from, the object in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What would happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreviewAction {
    /// It would be made.
    Create,
    /// It exists and would be changed.
    Update,
    /// Nothing: it exists as it should be, or it is kept out.
    Skip,
    /// It exists, differs, and would stay as it is, with a warning.
    Conflict,
    /// It could not be restored, with an error.
    Fail,
}

impl ItemPreview {
    /// Shows of a Secret that it differs and where, but nothing that may hold its content.
    pub fn hide_secrets(&mut self) {
        difference::hide_changes(&self.api_version, &self.kind, &mut self.changes);
    }
}
