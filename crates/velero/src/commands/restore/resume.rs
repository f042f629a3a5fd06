//! `velero restore create --resume`: the restore that goes on with one that was interrupted or ended with errors.
//!
//! All that speaks against it is looked for before anything is made; the server looks again when its turn comes.

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use velero_api::metadata::name;
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Error, types};
use velero_rules::resume::{
    Relative, Resumed, backup_obstacle, family, restore_obstacle, resume_name, resuming as wish,
};

use crate::arguments::RestoreCreateArguments;
use crate::arguments::values::merged;
use crate::session::Session;

/// The restore that goes on with another, which must be one that can be gone on with.
pub(super) async fn resuming(session: &Session, resumed: &str, arguments: &RestoreCreateArguments) -> Result<Restore> {
    let all = session.list::<Restore>("").await?.items;
    let found = all.iter().find(|restore| name(*restore) == resumed);
    let known: Vec<Relative> = all.iter().map(Relative::from).collect();
    let own = arguments.name.as_deref().unwrap_or_default();
    let relatives = &family(resumed, own, &known)[1..];
    let leaving = match found {
        Some(restore) => leaving(session, restore).await?,
        None => Vec::new(),
    };
    if let Some(obstacle) = restore_obstacle(&Resumed { name: resumed, restore: found, relatives, leaving: &leaving }) {
        bail!(obstacle);
    }
    let Some(restore) = found else { bail!("restores.velero.io {resumed:?} not found") };
    let backup = match restore.spec.backup_name.as_str() {
        "" => None,
        backup => session.find::<Backup>(backup).await?,
    };
    if let Some(obstacle) = backup_obstacle(restore, backup.as_ref()) {
        bail!(obstacle);
    }
    let is_taken = |wanted: &str| known.iter().any(|relative| relative.name == wanted);
    let own = arguments.name.clone().unwrap_or_else(|| resume_name(restore, is_taken));
    let mut resuming =
        wish(restore, &own).map_err(|error| anyhow!("restore {resumed:?} cannot be resumed: {error}"))?;
    resuming.metadata.labels.get_or_insert_default().extend(merged(&arguments.labels));
    resuming.metadata.annotations.get_or_insert_default().extend(merged(&arguments.annotations));
    Ok(resuming)
}

/// The namespaces of the mapping of a restore that are being deleted. Who may not look leaves it to the server.
async fn leaving(session: &Session, restore: &Restore) -> Result<Vec<String>> {
    let mut leaving = Vec::new();
    for namespace in restore.spec.namespace_mapping.values() {
        match session.cluster.get(types::NAMESPACES.item(None, namespace)).await {
            Ok(Some(found)) if is_terminating(&found) => leaving.push(namespace.clone()),
            Ok(_) | Err(Error::Forbidden(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(leaving)
}

fn is_terminating(namespace: &Value) -> bool {
    namespace["status"]["phase"] == "Terminating" || namespace["metadata"]["deletionTimestamp"].is_string()
}
