//! Tells open pages that something has changed. What has, they ask for themselves, with the rights of who looks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use crate::index::{Index, Table};
use crate::kept::Row;
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How long a page is told of changes before it must ask again, and so be asked for its rights.
const LIFETIME: Duration = Duration::from_secs(300);
/// A change is told at once; those that follow it closely are one.
const PAUSE: Duration = Duration::from_millis(250);
/// How soon a page comes back when its stream has ended.
const AGAIN: Duration = Duration::from_millis(250);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What browsers say when they come back: the last event they know.
const LAST_EVENT: &str = "last-event-id";

/// Which changes a page wants to hear of.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    kind: String,
    /// The one object that it shows; nothing where it shows many.
    #[serde(default)]
    name: String,
    /// How often the kind had changed when the page was made.
    since: Option<u64>,
}

/// What a stream follows.
struct Followed {
    changes: Receiver<u64>,
    /// Whether what the page shows is among what has changed since it was last asked.
    is_shown: Box<dyn FnMut() -> bool + Send>,
}

impl Followed {
    /// Follows a kind, or one object of it: pages that show one are not loaded again for all others.
    fn of<R: Row>(index: &Arc<Index>, table: fn(&Index) -> &Table<R>, name: &str) -> Self {
        let changes = table(index).changes();
        if name.is_empty() {
            return Self { changes, is_shown: Box::new(|| true) };
        }
        let (index, name) = (Arc::clone(index), name.to_owned());
        let mut known = table(&index).row(&name);
        let is_shown = move || {
            let row = table(&index).row(&name);
            let is_same = match (&known, &row) {
                (Some(known), Some(row)) => Arc::ptr_eq(known, row),
                (None, None) => true,
                _ => false,
            };
            known = row;
            !is_same
        };
        Self { changes, is_shown: Box::new(is_shown) }
    }
}

/// Where the stream stands.
struct Stage {
    followed: Followed,
    /// What the page knew when it asked, until that is looked at.
    opening: Option<Option<u64>>,
    pause: Duration,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

impl Stage {
    /// What is told next; nothing when the time of the stream is over.
    async fn next(&mut self) -> Option<Event> {
        if let Some(known) = self.opening.take() {
            let current = *self.followed.changes.borrow_and_update();
            if known.is_none_or(|known| known == current) {
                return Some(numbered(current));
            }
        } else {
            self.change().await?;
        }
        self.pause = PAUSE;
        let current = *self.followed.changes.borrow_and_update();
        Some(numbered(current).event("change").data("1"))
    }

    async fn change(&mut self) -> Option<()> {
        sleep(self.pause).await;
        loop {
            timeout_at(self.end, self.followed.changes.changed()).await.ok()?.ok()?;
            if (self.followed.is_shown)() {
                return Some(());
            }
        }
    }
}

/// An event that says how far the page is: without more it is nothing but that.
fn numbered(current: u64) -> Event {
    Event::default().id(current.to_string()).retry(AGAIN)
}

pub(crate) async fn stream(
    State(shared): State<Shared>,
    user: User,
    headers: HeaderMap,
    Query(wanted): Query<Wanted>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let (index, name) = (&shared.index, wanted.name.as_str());
    let (resource, followed) = match wanted.kind.as_str() {
        "backups" => ("backups", Followed::of(index, |index| &index.backups, name)),
        "restores" => ("restores", Followed::of(index, |index| &index.restores, name)),
        "schedules" => ("schedules", Followed::of(index, |index| &index.schedules, name)),
        "locations" => ("backupstoragelocations", Followed::of(index, |index| &index.locations, name)),
        other => return Err(Problem::Bad(format!("nobody is told of changes of {other:?}"))),
    };
    user.must(Right::to("list", resource)).await?;
    let place = Arc::clone(&shared.live).try_acquire_owned();
    let place = place.map_err(|_| Problem::Away("too many pages are told of changes already".to_owned()))?;
    let last = headers.get(LAST_EVENT).and_then(|value| value.to_str().ok()?.parse().ok());
    let stage = Stage {
        followed,
        opening: Some(last.or(wanted.since)),
        pause: Duration::ZERO,
        end: Instant::now() + LIFETIME,
        _place: place,
    };
    let events = stream::unfold(stage, |mut stage| async move {
        let event = stage.next().await?;
        Some((Ok(event), stage))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Semaphore, watch};

    use super::*;

    /// A stream over changes that are played, and the way to play one.
    async fn stage(known: Option<u64>, is_shown: impl FnMut() -> bool + Send + 'static) -> (Stage, watch::Sender<u64>) {
        let sender = watch::Sender::new(7);
        let followed = Followed { changes: sender.subscribe(), is_shown: Box::new(is_shown) };
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let end = Instant::now() + LIFETIME;
        (Stage { followed, opening: Some(known), pause: Duration::ZERO, end, _place: place }, sender)
    }

    /// What is told next, as a browser would read it.
    async fn told(stage: &mut Stage) -> Option<String> {
        stage.next().await.map(|event| format!("{event:?}"))
    }

    fn is_change(text: &str) -> bool {
        text.contains("event: change")
    }

    #[tokio::test(start_paused = true)]
    async fn who_missed_a_change_before_the_stream_began_is_told_at_once() {
        let (mut late, _sender) = stage(Some(5), || true).await;
        assert!(is_change(&told(&mut late).await.unwrap()));
        for known in [Some(7), None] {
            let (mut current, sender) = stage(known, || true).await;
            assert!(!is_change(&told(&mut current).await.unwrap()), "{known:?}");
            sender.send_modify(|count| *count += 1);
            assert!(is_change(&told(&mut current).await.unwrap()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_of_one_object_is_not_told_of_others_and_all_streams_end() {
        let (mut stage, sender) = stage(Some(7), || false).await;
        assert!(!is_change(&told(&mut stage).await.unwrap()));
        sender.send_modify(|count| *count += 1);
        assert_eq!(told(&mut stage).await, None, "its time was over first");
    }
}
