//! A restore that goes on with another: which that is, and whether it can be gone on with by now.

use serde_json::Value;
use velero_api::annotations::RESUME_OF;
use velero_api::metadata::{annotation, name};
use velero_api::v1::{Backup, Restore};
use velero_cluster::types;
use velero_rules::resume::{Relative, Resumed, backup_obstacle, family, restore_obstacle};

use crate::runtime::error::Result;
use crate::runtime::objects::Objects;

/// The restore that another goes on with.
pub(super) struct Resumption {
    name: String,
    restore: Option<Restore>,
    leaving: Vec<String>,
    /// All restores that belong to it, itself first.
    pub(super) family: Vec<Relative>,
}

/// Looks for the restore that another goes on with; nothing when it names none.
pub(super) async fn gather(objects: &Objects, restore: &Restore) -> Result<Option<Resumption>> {
    let resumed = annotation(restore, RESUME_OF);
    if resumed.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    objects.visit("", |restore: Restore| all.push(Relative::from(&restore))).await?;
    let mut leaving = Vec::new();
    for namespace in restore.spec.namespace_mapping.values() {
        let found = objects.cluster().get(types::NAMESPACES.item(None, namespace)).await?;
        leaving.extend(found.filter(is_terminating).map(|_| namespace.clone()));
    }
    Ok(Some(Resumption {
        name: resumed.to_owned(),
        restore: objects.get(resumed).await?,
        leaving,
        family: family(resumed, name(restore), &all),
    }))
}

fn is_terminating(namespace: &Value) -> bool {
    namespace["status"]["phase"] == "Terminating" || namespace["metadata"]["deletionTimestamp"].is_string()
}

impl Resumption {
    /// Why the other cannot be gone on with; nothing when it can. What is wrong with the backup alone is told elsewhere.
    pub(super) fn problem(&self, restore: &Restore, backup: Option<&Backup>) -> Option<String> {
        let relatives = self.family.get(1..).unwrap_or_default();
        let facts = Resumed { name: &self.name, restore: self.restore.as_ref(), relatives, leaving: &self.leaving };
        let (resumed, own) = (self.restore.as_ref(), &restore.spec.backup_name);
        restore_obstacle(&facts).or_else(|| {
            let came_from = &resumed?.spec.backup_name;
            (came_from != own).then(|| {
                let resumed = &self.name;
                format!(
                    "restore {resumed:?} cannot be resumed from backup {own:?}: it came from backup {came_from:?}; name that in \
                     spec.backupName, or take off the annotation {RESUME_OF}"
                )
            })
        })
        .or_else(|| backup_obstacle(resumed?, Some(backup?)))
    }
}
