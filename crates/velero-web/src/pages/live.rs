//! Tells open pages that something has changed. What has, they ask for themselves, with the rights of who looks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How long a page is told of changes before it must ask again, and so be asked for its rights.
const LIFETIME: Duration = Duration::from_secs(300);
/// A change is told at once; those that follow it closely are one.
const PAUSE: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which changes a page wants to hear of.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    kind: String,
}

/// Where the stream stands.
struct Stage {
    changes: Receiver<u64>,
    pause: Duration,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

pub(crate) async fn stream(
    State(shared): State<Shared>,
    user: User,
    Query(wanted): Query<Wanted>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let index = &shared.index;
    let (resource, mut changes) = match wanted.kind.as_str() {
        "backups" => ("backups", index.backups.changes()),
        "restores" => ("restores", index.restores.changes()),
        "schedules" => ("schedules", index.schedules.changes()),
        "locations" => ("backupstoragelocations", index.locations.changes()),
        other => return Err(Problem::Bad(format!("nobody is told of changes of {other:?}"))),
    };
    user.must(Right::to("list", resource)).await?;
    let place = Arc::clone(&shared.live).try_acquire_owned();
    let place = place.map_err(|_| Problem::Away("too many pages are told of changes already".to_owned()))?;
    changes.mark_unchanged();
    let stage = Stage { changes, pause: Duration::ZERO, end: Instant::now() + LIFETIME, _place: place };
    let events = stream::unfold(stage, |mut stage| async move {
        sleep(stage.pause).await;
        timeout_at(stage.end, stage.changes.changed()).await.ok()?.ok()?;
        stage.pause = PAUSE;
        Some((Ok(Event::default().event("change").data("1")), stage))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
