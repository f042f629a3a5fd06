//! Tells clients the server's version, plugins and readiness.
//!
//! One request is kept and always up to date: that named [`SERVER_STATUS_NAME`]. All others are answered once and
//! deleted a minute later.

use std::time::Duration;

use velero_api::GoDuration;
use velero_api::v1::{
    BackupStorageLocation, SERVER_STATUS_NAME, ServerStatus, ServerStatusRequest, ServerStatusRequestPhase,
};

use crate::clock;
use crate::context::{Context, SharedContext};
use crate::driver::{Next, Reconciler};
use crate::error::{Error, Result};
use crate::objects::name;

/// How long an answer is kept.
const LIFETIME: GoDuration = GoDuration::from_mins(1);
/// How often the answer that is kept is looked at.
const REFRESH: Duration = Duration::from_secs(10);

/// Watches ServerStatusRequests.
pub(crate) struct ServerStatusRequestReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for ServerStatusRequestReconciler {
    type Kind = ServerStatusRequest;
    const NAME: &'static str = "server-status-request";
    const CONCURRENCY: u16 = 10;

    async fn reconcile(&self, request: ServerStatusRequest) -> Result<Next> {
        let context = &self.context;
        if name(&request) == SERVER_STATUS_NAME {
            answer(context, &request).await?;
            return Ok(Next::After(REFRESH));
        }
        let now = clock::now();
        let processed = request.status.processed_timestamp.as_ref().map(|time| time.0);
        match (request.status.phase(), processed) {
            (ServerStatusRequestPhase::Processed, Some(processed)) => {
                let end = clock::after(processed, LIFETIME);
                if end > now {
                    return Ok(Next::After(clock::until(end, now)));
                }
                context.objects.delete::<ServerStatusRequest>(name(&request)).await?;
            }
            _ => answer(context, &request).await?,
        }
        Ok(Next::Change)
    }
}

async fn answer(context: &Context, request: &ServerStatusRequest) -> Result<()> {
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

/// Makes the request that is kept, unless it is there.
pub(crate) async fn ensure_kept_request(context: &Context) -> Result<()> {
    let request = ServerStatusRequest::new(context.objects.namespace(), SERVER_STATUS_NAME, Default::default());
    match context.objects.create(&request).await {
        Err(Error::Cluster(error)) if error.is_already_exists() => Ok(()),
        created => created.map(drop),
    }
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
