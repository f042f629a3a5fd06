//! What happens once, before the controllers run.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use velero_api::v1::{
    Backup, BackupPhase, BackupStorageLocation, PodVolumeBackup, PodVolumeRestore, Restore, RestorePhase,
};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{GROUP, labels};
use velero_cluster::{Cluster, Error as ClusterError};

use crate::backup_phase::move_to;
use crate::clock;
use crate::context::Context;
use crate::debts::{self, Remains};
use crate::error::{Error, Result, describe};
use crate::objects::{name, uid};
use crate::{csi_snapshots, restore_phase};

/// How long a store may take to tell what an interrupted backup left in it.
const STORE_PATIENCE: Duration = Duration::from_secs(30);

/// Refuses a cluster without the namespace or without the definitions of Velero's kinds.
pub(crate) async fn check_cluster(cluster: &Cluster, namespace: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(cluster.client().clone());
    let found = api.get_metadata_opt(namespace).await;
    let found = found.map_err(|error| ClusterError::from_kube(format!("get namespace {namespace}"), error))?;
    if found.is_none() {
        return Err(Error::MissingNamespace { namespace: namespace.to_owned() });
    }
    let mut served = BTreeSet::new();
    for version in ["v1", "v2alpha1"] {
        match cluster.client().list_api_group_resources(&format!("{GROUP}/{version}")).await {
            Ok(list) => served.extend(list.resources.into_iter().map(|resource| (version, resource.name))),
            Err(error) => match ClusterError::from_kube(format!("discover {GROUP}/{version}"), error) {
                ClusterError::NotFound(_) => {}
                error => return Err(error.into()),
            },
        }
    }
    let names = missing_definitions(&served);
    if names.is_empty() { Ok(()) } else { Err(Error::MissingDefinitions { names }) }
}

fn missing_definitions(served: &BTreeSet<(&str, String)>) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let wanted = velero_api::crd::all();
    let wanted =
        wanted.iter().map(|crd| (text(&crd["spec"]["versions"][0]["name"]), text(&crd["spec"]["names"]["plural"])));
    let missing = wanted.filter(|(version, plural)| !served.contains(&(version.as_str(), plural.clone())));
    missing.map(|(version, plural)| format!("{plural}.{GROUP} ({version})")).collect()
}

/// Marks what an earlier server was working on as failed: nobody is working on it any more.
pub(crate) async fn fail_interrupted(context: &Context) -> Result<()> {
    let mut backups = Vec::new();
    context
        .objects
        .visit("", |backup: Backup| {
            if *backup.status.phase() == BackupPhase::InProgress {
                backups.push(backup);
            }
        })
        .await?;
    for backup in backups {
        fail_interrupted_backup(context, &backup).await?;
    }
    fail_interrupted_restores(context).await
}

/// Ends a backup that nobody works on any more. What could not be cleaned up is remembered with the end.
async fn fail_interrupted_backup(context: &Context, backup: &Backup) -> Result<()> {
    let selector = format!("{}={}", labels::BACKUP_UID, uid(backup));
    cancel_backup_movers(context, &selector, &interrupted("backup")).await;
    let mut failed = backup.clone();
    let remains = tokio::time::timeout(STORE_PATIENCE, debts::remove_remains(context, backup)).await;
    let owed = match remains {
        Ok(Ok(Remains::Ended(stored))) => {
            failed.status = stored.status;
            context.objects.force(backup, &failed).await?;
            tracing::info!(backup = name(backup), "The backup had ended when the server was stopped");
            return Ok(());
        }
        Ok(Ok(Remains::Removed)) => None,
        Ok(Ok(Remains::Left(problem))) => Some(problem),
        Ok(Err(error)) => Some(describe(&error)),
        Err(_) => Some(format!("its location did not answer within {STORE_PATIENCE:?}")),
    };
    if let Some(problem) = owed {
        tracing::warn!(backup = name(backup), problem, "What the interrupted backup left is removed later");
        // This needs no store.
        csi_snapshots::discard(context, backup).await;
        debts::owe(&mut failed, debts::OF_BACKUP);
    }
    move_to(&mut failed, BackupPhase::Failed)?;
    failed.status.failure_reason = interrupted("backup");
    failed.status.completion_timestamp = Some(clock::now_time());
    context.objects.force(backup, &failed).await?;
    tracing::warn!(backup = name(backup), "{}", failed.status.failure_reason);
    Ok(())
}

async fn fail_interrupted_restores(context: &Context) -> Result<()> {
    let mut restores = Vec::new();
    context
        .objects
        .visit("", |restore: Restore| {
            if *restore.status.phase() == RestorePhase::InProgress {
                restores.push(restore);
            }
        })
        .await?;
    for restore in restores {
        let selector = format!("{}={}", labels::RESTORE_UID, uid(&restore));
        cancel_restore_movers(context, &selector, &interrupted("restore")).await;
        let mut failed = restore.clone();
        let cancelled = debts::cancel_operations(context, &restore);
        let owed = match tokio::time::timeout(STORE_PATIENCE, cancelled).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(describe(&error)),
            Err(_) => Some(format!("its location did not answer within {STORE_PATIENCE:?}")),
        };
        if let Some(problem) = owed {
            tracing::warn!(restore = name(&restore), problem, "Operations of the restore are cancelled later");
            debts::owe(&mut failed, debts::OF_RESTORE);
        }
        restore_phase::move_to(&mut failed, RestorePhase::Failed)?;
        failed.status.failure_reason = interrupted("restore");
        failed.status.completion_timestamp = Some(clock::now_time());
        context.objects.force(&restore, &failed).await?;
        tracing::warn!(restore = name(&restore), "{}", failed.status.failure_reason);
    }
    Ok(())
}

fn interrupted(kind: &str) -> String {
    format!(r#"found a {kind} with status "InProgress" during the server starting, mark it as "Failed""#)
}

/// Asks one kind of data mover objects to stop.
macro_rules! cancel {
    ($context:expr, $kind:ty, $selector:expr, $reason:expr) => {
        match $context.objects.list::<$kind>($selector).await {
            Err(error) => tracing::error!(error = describe(&error), "Data movers could not be listed"),
            Ok(movers) => {
                for mover in movers.into_iter().filter(|mover| !mover.status.phase().is_terminal()) {
                    let mut cancelled = mover.clone();
                    cancelled.spec.cancel = true;
                    cancelled.status.message = $reason.to_owned();
                    if let Err(error) = $context.objects.force(&mover, &cancelled).await {
                        tracing::error!(
                            name = name(&mover),
                            error = describe(&error),
                            "A data mover could not be cancelled"
                        );
                    }
                }
            }
        }
    };
}

async fn cancel_backup_movers(context: &Context, selector: &str, reason: &str) {
    cancel!(context, DataUpload, selector, reason);
    cancel!(context, PodVolumeBackup, selector, reason);
}

async fn cancel_restore_movers(context: &Context, selector: &str, reason: &str) {
    cancel!(context, DataDownload, selector, reason);
    cancel!(context, PodVolumeRestore, selector, reason);
}

/// Makes the location named by the flag the default, unless there is one.
pub(crate) async fn ensure_default_location(context: &Context) -> Result<()> {
    let wanted = &context.settings.default_backup_storage_location;
    let locations = context.objects.list::<BackupStorageLocation>("").await?;
    if locations.iter().any(|location| location.spec.default) {
        return Ok(());
    }
    if let Some(location) = locations.iter().find(|location| name(*location) == wanted) {
        let mut default = location.clone();
        default.spec.default = true;
        context.objects.force(location, &default).await?;
        tracing::info!(location = wanted, "The location is the default now");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_is_not_served_is_named_with_its_version() {
        let all: BTreeSet<_> = velero_api::crd::all()
            .iter()
            .map(|crd| {
                let version = if crd["spec"]["versions"][0]["name"] == "v1" { "v1" } else { "v2alpha1" };
                (version, crd["spec"]["names"]["plural"].as_str().unwrap().to_owned())
            })
            .collect();
        assert!(missing_definitions(&all).is_empty());
        let mut some = all.clone();
        some.remove(&("v1", "backups".to_owned()));
        assert_eq!(missing_definitions(&some), ["backups.velero.io (v1)"]);
        assert_eq!(missing_definitions(&BTreeSet::new()).len(), 13);
    }
}
