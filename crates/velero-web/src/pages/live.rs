//! Tells open pages that something has changed. What has, they ask for themselves, with the rights of who looks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::future::select_all;
use futures::stream;
use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};
use velero_api::labels::valid_value;

use crate::index::{Index, Table};
use crate::kept::Row;
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How long a page is told of changes before it must ask again, and so be asked for its rights.
const LIFETIME: Duration = Duration::from_secs(300);
/// A change is told at once; those that follow it closely are one.
const PAUSE: Duration = Duration::from_millis(250);
/// The same for pages of one object, for which the API server is asked each time; data on its way is told of all the time.
const PAUSE_OF_ONE: Duration = Duration::from_millis(750);
/// How soon a page comes back when its stream has ended.
const AGAIN: Duration = Duration::from_millis(250);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What browsers say when they come back: the last event they know.
const LAST_EVENT: &str = "last-event-id";
/// Proxies that gather what they hand on must not: nginx knows it by this.
const AT_ONCE: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

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
    /// How often each of the kinds has changed; there is one at least.
    changes: Vec<Receiver<u64>>,
    /// Whether what the page shows is among what has changed since it was last asked.
    is_shown: Box<dyn FnMut() -> bool + Send>,
}

impl Followed {
    /// Follows all objects of some kinds.
    fn all(changes: Vec<Receiver<u64>>) -> Self {
        Self { changes, is_shown: Box::new(|| true) }
    }

    /// Follows a kind, or one object of it: pages that show one are not loaded again for all others.
    fn of<R: Row>(index: &Arc<Index>, table: fn(&Index) -> &Table<R>, name: &str) -> Self {
        let changes = vec![table(index).changes()];
        if name.is_empty() {
            return Self::all(changes);
        }
        let (index, name) = (Arc::clone(index), name.to_owned());
        Self::one(changes, move || Same(table(&index).row(&name)))
    }

    /// Follows a backup, the data of its volumes on its way, and what becomes of requests to delete it.
    fn backup(index: &Arc<Index>, name: &str) -> Self {
        let (changes, index) = (index.backup_changes(), Arc::clone(index));
        let (name, label) = (name.to_owned(), valid_value(name));
        Self::one(changes, move || (Same(index.backups.row(&name)), index.last_moves_of_backup(&label)))
    }

    /// Follows a restore, and the data of its volumes on its way.
    fn restore(index: &Arc<Index>, name: &str) -> Self {
        let (changes, index) = (index.restore_changes(), Arc::clone(index));
        let (name, label) = (name.to_owned(), valid_value(name));
        Self::one(changes, move || (Same(index.restores.row(&name)), index.last_moves_of_restore(&label)))
    }

    /// Follows what is seen of some kinds.
    fn one<T: PartialEq + Send + 'static>(
        changes: Vec<Receiver<u64>>,
        mut look: impl FnMut() -> T + Send + 'static,
    ) -> Self {
        let mut known = look();
        let is_shown = move || {
            let seen = look();
            let differs = seen != known;
            known = seen;
            differs
        };
        Self { changes, is_shown: Box::new(is_shown) }
    }

    /// How often all kinds together have changed by now.
    fn current(&mut self) -> u64 {
        self.changes.iter_mut().map(|changes| *changes.borrow_and_update()).sum()
    }

    /// Waits until one of the kinds has changed; nothing when none will any more.
    async fn changed(&mut self) -> Option<()> {
        let waiting = self.changes.iter_mut().map(|changes| Box::pin(changes.changed()));
        select_all(waiting).await.0.ok()
    }
}

/// A row, if there is one. After each change of its object it is another one.
struct Same<R>(Option<Arc<R>>);

impl<R> PartialEq for Same<R> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// Where the stream stands.
struct Stage {
    followed: Followed,
    /// What the page knew when it asked, until that is looked at.
    opening: Option<Option<u64>>,
    /// How long nothing is told now, and how long after a change.
    pause: Duration,
    next_pause: Duration,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

impl Stage {
    /// What is told next; nothing when the time of the stream is over.
    async fn next(&mut self) -> Option<Event> {
        if let Some(known) = self.opening.take() {
            let current = self.followed.current();
            if known.is_none_or(|known| known == current) {
                return Some(numbered(current));
            }
        } else {
            self.change().await?;
        }
        self.pause = self.next_pause;
        Some(numbered(self.followed.current()).event("change").data("1"))
    }

    async fn change(&mut self) -> Option<()> {
        sleep(self.pause).await;
        loop {
            timeout_at(self.end, self.followed.changed()).await.ok()??;
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
) -> Result<impl IntoResponse, Problem> {
    let followed = follow(&shared.index, &user, &wanted).await?;
    let place = Arc::clone(&shared.live).try_acquire_owned();
    let place = place.map_err(|_| Problem::Away("too many pages are told of changes already".to_owned()))?;
    let last = headers.get(LAST_EVENT).and_then(|value| value.to_str().ok()?.parse().ok());
    let stage = Stage {
        followed,
        opening: Some(last.or(wanted.since)),
        pause: Duration::ZERO,
        next_pause: if wanted.name.is_empty() { PAUSE } else { PAUSE_OF_ONE },
        end: Instant::now() + LIFETIME,
        _place: place,
    };
    let events = stream::unfold(stage, |mut stage| async move {
        let event = stage.next().await?;
        Some((Ok::<_, Infallible>(event), stage))
    });
    Ok(([AT_ONCE], Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))))
}

/// What a page follows: who may not see it is not told when it changes.
async fn follow(index: &Arc<Index>, user: &User, wanted: &Wanted) -> Result<Followed, Problem> {
    let name = wanted.name.as_str();
    let (resource, followed) = match wanted.kind.as_str() {
        "overview" => return follow_overview(index, user).await,
        "backups" if !name.is_empty() => ("backups", Followed::backup(index, name)),
        "restores" if !name.is_empty() => ("restores", Followed::restore(index, name)),
        "backups" => ("backups", Followed::of(index, |index| &index.backups, name)),
        "restores" => ("restores", Followed::of(index, |index| &index.restores, name)),
        "schedules" => ("schedules", Followed::of(index, |index| &index.schedules, name)),
        "locations" => ("backupstoragelocations", Followed::of(index, |index| &index.locations, name)),
        other => return Err(Problem::Bad(format!("nobody is told of changes of {other:?}"))),
    };
    let verb = if name.is_empty() { "list" } else { "get" };
    user.must(Right::to(verb, resource)).await?;
    Ok(followed)
}

/// The first page shows several kinds: it follows those that this person may list.
async fn follow_overview(index: &Index, user: &User) -> Result<Followed, Problem> {
    let rights = Index::OVERVIEW.map(|resource| Right::to("list", resource));
    let changes = index.overview_changes(user.may_each(rights).await?);
    if changes.is_empty() { Err(user.missing(rights[0])) } else { Ok(Followed::all(changes)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::{Semaphore, watch};

    use super::*;

    /// A stream over changes that are played, and the way to play one.
    async fn stage(known: Option<u64>, is_shown: impl FnMut() -> bool + Send + 'static) -> (Stage, watch::Sender<u64>) {
        let sender = watch::Sender::new(7);
        let followed = Followed { changes: vec![sender.subscribe()], is_shown: Box::new(is_shown) };
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let end = Instant::now() + LIFETIME;
        let opening = Some(known);
        (Stage { followed, opening, pause: Duration::ZERO, next_pause: PAUSE, end, _place: place }, sender)
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

    #[test]
    fn what_is_seen_of_one_object_is_told_when_it_is_another() {
        let (changes, seen) = (watch::Sender::new(0_u64), Arc::new(AtomicU64::new(1)));
        let looked_at = Arc::clone(&seen);
        let mut followed = Followed::one(vec![changes.subscribe()], move || looked_at.load(Ordering::SeqCst));
        assert!(!(followed.is_shown)(), "it is as it was");
        seen.store(2, Ordering::SeqCst);
        assert!((followed.is_shown)() && !(followed.is_shown)());
        let row = Arc::new(7);
        assert!(Same(Some(Arc::clone(&row))) == Same(Some(row)) && Same::<u8>(None) == Same(None));
        assert!(Same(Some(Arc::new(7))) != Same(Some(Arc::new(7))) && Same(Some(Arc::new(7))) != Same(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_of_several_kinds_is_told_of_each() {
        let index = Index::default();
        let senders = [watch::Sender::new(3_u64), watch::Sender::new(4)];
        let followed = Followed::all(senders.iter().map(watch::Sender::subscribe).collect());
        let (mut stage, _own) = stage(Some(7), || true).await;
        stage.followed = followed;
        assert!(!is_change(&told(&mut stage).await.unwrap()), "three and four are seven");
        for sender in &senders {
            sender.send_modify(|count| *count += 1);
            assert!(is_change(&told(&mut stage).await.unwrap()));
        }
        let kinds = |rights| index.overview_changes(rights).len();
        assert_eq!((kinds([true; 4]), kinds([false, true, false, false]), kinds([false; 4])), (4, 1, 0));
    }
}
