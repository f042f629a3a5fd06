//! Keeps the one ServerStatusRequest that is never deleted: which version serves, with which plugins, and whether its
//! locations can be used.
//!
//! It follows the locations and that request itself, so it is right within a moment of any change and nobody has to ask.

use std::pin::pin;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, future, stream};
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    BackupStorageLocation, SERVER_STATUS_NAME, ServerStatus, ServerStatusRequest, ServerStatusRequestPhase,
};
use velero_cluster::watched;

use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::driver::WATCH_SECONDS;
use crate::runtime::error::{Result, describe};

/// The shortest time between two looks, so that two servers that disagree during an upgrade do not fight for long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The pause after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Keeps the status true until the server ends; `is_true` says whether it is now.
pub(crate) async fn keep(context: SharedContext, is_true: bool) {
    tokio::select! {
        () = context.stop.cancelled() => {}
        () = follow(&context, is_true) => {}
    }
}

async fn follow(context: &Context, is_true: bool) {
    // What does not exist yet has no changes to tell of.
    if !is_true {
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        refresh_until_true(context).await;
    }
    let all = watcher::Config::default().timeout(WATCH_SECONDS);
    let kept = all.clone().fields(&format!("metadata.name={SERVER_STATUS_NAME}"));
    let mut changes = pin!(stream::select(
        changes::<BackupStorageLocation>(context, all),
        changes::<ServerStatusRequest>(context, kept),
    ));
    while changes.next().await.is_some() {
        // One look is enough for all that changed since the last.
        while changes.next().now_or_never().flatten().is_some() {}
        refresh_until_true(context).await;
        tokio::time::sleep(SHORTEST_PAUSE).await;
    }
}

async fn refresh_until_true(context: &Context) {
    while !is_refreshed(context).await {
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
    }
}

/// Makes the status true; gives whether it is. What hinders that is told in the log.
pub(crate) async fn is_refreshed(context: &Context) -> bool {
    let refreshed = refresh(context).await;
    if let Err(error) = &refreshed {
        tracing::warn!(error = describe(error), "The status of the server could not be written; trying again");
    }
    refreshed.is_ok()
}

/// Says when an object of a kind is added, changed or deleted.
fn changes<K: VeleroResource>(context: &Context, config: watcher::Config) -> impl Stream<Item = ()> {
    let objects = &context.objects;
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(objects.cluster().client().clone(), objects.namespace());
    watched(api, config).touched_objects().filter_map(|change| {
        let failed = |error| tracing::warn!(kind = K::KIND, error = describe(&error), "The watch is begun again");
        future::ready(change.map(drop).map_err(failed).ok())
    })
}

/// Makes the kept request where it is missing, and writes what is no longer true in it.
async fn refresh(context: &Context) -> Result<()> {
    let objects = &context.objects;
    let kept = match objects.get(SERVER_STATUS_NAME).await? {
        Some(kept) => kept,
        None => {
            let request = ServerStatusRequest::new(objects.namespace(), SERVER_STATUS_NAME, Default::default());
            objects.create(&request).await?
        }
    };
    answer(context, &kept).await
}

/// Writes the answer to a request, unless it is there already.
pub(crate) async fn answer(context: &Context, request: &ServerStatusRequest) -> Result<()> {
    let locations = context.objects.list::<BackupStorageLocation>("").await?;
    let mut answered = request.clone();
    let status = &mut answered.status;
    status.phase = Some(ServerStatusRequestPhase::Processed);
    status.server_version.clone_from(&context.settings.server_version);
    status.plugins = context.plugins.listed().to_vec();
    status.server_status = Some(readiness(&locations));
    // The time alone is no news.
    if answered != *request {
        answered.status.processed_timestamp = Some(clock::now_time());
        context.objects.force(request, &answered).await?;
    }
    Ok(())
}

/// Whether the server can back up and restore, judged by its locations.
fn readiness(locations: &[BackupStorageLocation]) -> ServerStatus {
    let available = locations.iter().filter(|location| location.is_available()).count();
    match available {
        0 => ServerStatus::Waiting,
        _ if available == locations.len() => ServerStatus::Ready,
        _ => ServerStatus::PartiallyReady,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::BackupStorageLocationPhase::{self, Available, Unavailable};

    use super::*;

    #[test]
    fn the_server_is_as_ready_as_its_locations() {
        let location = |phase: Option<BackupStorageLocationPhase>| {
            let mut location = BackupStorageLocation::new("velero", "l", Default::default());
            location.status.phase = phase;
            location
        };
        let cases: [(&[Option<BackupStorageLocationPhase>], ServerStatus); 5] = [
            (&[], ServerStatus::Waiting),
            (&[Some(Available), Some(Available)], ServerStatus::Ready),
            (&[Some(Available), Some(Unavailable)], ServerStatus::PartiallyReady),
            (&[Some(Available), None], ServerStatus::PartiallyReady),
            (&[Some(Unavailable), None], ServerStatus::Waiting),
        ];
        for (phases, expected) in cases {
            let locations: Vec<_> = phases.iter().cloned().map(location).collect();
            assert_eq!(readiness(&locations), expected, "{phases:?}");
        }
    }
}
