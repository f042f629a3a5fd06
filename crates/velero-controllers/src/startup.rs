//! What happens once, before the controllers run.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use velero_api::GROUP;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation, Restore, RestorePhase};
use velero_cluster::{Cluster, Error as ClusterError};

use crate::backup_phase::move_to;
use crate::clock;
use crate::context::Context;
use crate::debts;
use crate::driver::Next;
use crate::error::{Error, Result, describe};
use crate::objects::name;
use crate::ownership::End;
use crate::restore_phase;

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

/// Ends a backup that nobody works on any more. That its run left something behind is written with the end, so that
/// whoever comes next knows; then it is cleaned up.
async fn fail_interrupted_backup(context: &Context, backup: &Backup) -> Result<()> {
    let stored = tokio::time::timeout(STORE_PATIENCE, debts::stored_end(context, backup)).await;
    if let Ok(Ok(Some(stored))) = stored {
        let ended = Backup { status: stored.status, ..backup.clone() };
        context.write_end(backup, &ended).await?;
        tracing::info!(backup = name(backup), "The backup had ended when the server was stopped");
        return Ok(());
    }
    let mut failed = backup.clone();
    move_to(&mut failed, BackupPhase::Failed)?;
    failed.status.failure_reason = interrupted("backup");
    failed.status.completion_timestamp = Some(clock::now_time());
    debts::owe(&mut failed, debts::OF_BACKUP);
    let End::Written(failed) = context.write_end(backup, &failed).await? else { return Ok(()) };
    tracing::warn!(backup = name(backup), "{}", failed.status.failure_reason);
    pay("backup", name(backup), debts::pay_for_backup(context, &failed)).await;
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
        let mut failed = restore.clone();
        restore_phase::move_to(&mut failed, RestorePhase::Failed)?;
        failed.status.failure_reason = interrupted("restore");
        failed.status.completion_timestamp = Some(clock::now_time());
        debts::owe(&mut failed, debts::OF_RESTORE);
        let End::Written(failed) = context.write_end(&restore, &failed).await? else { continue };
        tracing::warn!(restore = name(&restore), "{}", failed.status.failure_reason);
        pay("restore", name(&restore), debts::pay_for_restore(context, &failed)).await;
    }
    Ok(())
}

/// Waits a while for what is owed to be paid; what is not paid then is tried again later.
async fn pay(kind: &str, name: &str, paying: impl Future<Output = Result<Next>>) {
    let problem = match tokio::time::timeout(STORE_PATIENCE, paying).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => describe(&error),
        Err(_) => format!("its location did not answer within {STORE_PATIENCE:?}"),
    };
    tracing::warn!(kind, name, problem, "What the interrupted run left is cleaned up later");
}

fn interrupted(kind: &str) -> String {
    format!(r#"found a {kind} with status "InProgress" during the server starting, mark it as "Failed""#)
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
