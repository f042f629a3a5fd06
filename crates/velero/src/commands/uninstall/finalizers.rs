//! Objects that go only when their work is undone: the server is given time for it, then they go without.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};
use velero_api::resource::VeleroResource;
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore, Restore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_cluster::list_all_metadata;

use crate::install::SERVER;
use crate::session::{Session, api_error};

/// How long the server may take to finish with them.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server itself may take to end.
const END_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(500);

/// Deletes all objects with finalizers while the server can still deal with them.
pub(super) async fn end_work(session: &Session) -> Result<()> {
    session.printer.line("Waiting for resource with attached finalizer to be deleted")?;
    let mut left = delete_all(session).await?;
    let deadline = Instant::now() + if serves(session).await? { PATIENCE } else { Duration::ZERO };
    while left > 0 && Instant::now() < deadline {
        sleep(POLL).await;
        left = delete_all(session).await?;
    }
    if left == 0 {
        return Ok(());
    }
    session.printer.note(format_args!("{left} objects are removed without their finalizers"));
    // A server that still ran would put them back.
    end_server(session).await?;
    strip::<Restore>(session).await?;
    strip::<DataUpload>(session).await?;
    strip::<DataDownload>(session).await?;
    strip::<PodVolumeBackup>(session).await?;
    strip::<PodVolumeRestore>(session).await
}

/// Asks for the deletion of all objects with finalizers; gives how many are still there.
async fn delete_all(session: &Session) -> Result<usize> {
    Ok(delete::<Restore>(session).await?
        + delete::<DataUpload>(session).await?
        + delete::<DataDownload>(session).await?
        + delete::<PodVolumeBackup>(session).await?
        + delete::<PodVolumeRestore>(session).await?)
}

async fn delete<K: VeleroResource>(session: &Session) -> Result<usize> {
    let names = finalized::<K>(session).await?;
    for (name, is_going) in &names {
        if !is_going {
            absent_is_fine(session.api::<K>().delete(name, &DeleteParams::default()).await.map(drop))?;
        }
    }
    Ok(names.len())
}

/// The objects of a kind that have finalizers, and whether they are being deleted.
async fn finalized<K: VeleroResource>(session: &Session) -> Result<Vec<(String, bool)>> {
    match list_all_metadata(&session.api::<K>(), &ListParams::default()).await {
        Ok(list) => {
            let items = list.items.into_iter().filter(|item| !item.finalizers().is_empty());
            Ok(items.map(|item| (item.name_any(), item.metadata.deletion_timestamp.is_some())).collect())
        }
        // Without their definition there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(api_error(error)),
    }
}

async fn strip<K: VeleroResource>(session: &Session) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    for (name, _) in finalized::<K>(session).await? {
        let stripped = session.api::<K>().patch_metadata(&name, &PatchParams::default(), &patch).await;
        absent_is_fine(stripped.map(drop))?;
    }
    Ok(())
}

async fn serves(session: &Session) -> Result<bool> {
    let found = servers(session).get_opt(SERVER).await.map_err(api_error)?;
    Ok(found.and_then(|server| server.status).and_then(|status| status.available_replicas).unwrap_or(0) > 0)
}

async fn end_server(session: &Session) -> Result<()> {
    let api = servers(session);
    absent_is_fine(api.delete(SERVER, &DeleteParams::foreground()).await.map(drop))?;
    let gone = await_condition(api, SERVER, |found: Option<&Deployment>| found.is_none());
    // One that does not end in time goes with the namespace.
    let _ = tokio::time::timeout(END_WITHIN, gone).await;
    Ok(())
}

fn servers(session: &Session) -> Api<Deployment> {
    Api::namespaced(session.cluster.client().clone(), session.namespace())
}

/// Takes what is gone already for removed.
pub(super) fn absent_is_fine(result: kube::Result<()>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map_err(api_error),
    }
}
