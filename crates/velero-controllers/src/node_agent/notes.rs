//! What this process remembers of transfers for the sake of deadlines. After a restart they begin anew.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;
use velero_api::records::DataPathProgress;

use crate::runtime::lock::lock;

/// Notes on the transfers of one kind, by name.
#[derive(Default)]
pub(crate) struct Notes(Mutex<HashMap<String, Note>>);

#[derive(Default)]
struct Note {
    uid: String,
    cancel_seen: Option<Instant>,
    missing_since: Option<Instant>,
    looked: Option<Instant>,
    moved: Option<Instant>,
    progress: Option<(DataPathProgress, Instant)>,
    result: Option<String>,
    follower: Option<AbortOnDropHandle<()>>,
}

/// How long ago something was seen for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) cancel: Duration,
    pub(crate) missing: Duration,
    pub(crate) progress: Duration,
}

impl Notes {
    /// Notes what is so now, and tells how long it has been so.
    pub(crate) fn see(&self, name: &str, uid: &str, is_cancelled: bool, is_missing: bool) -> Seen {
        self.with(name, uid, |note| {
            let now = Instant::now();
            note.looked = Some(now);
            let mut since = |place: fn(&mut Note) -> &mut Option<Instant>, is_so: bool| {
                let place = place(note);
                *place = is_so.then(|| place.unwrap_or(now));
                place.map_or(Duration::ZERO, |since| now - since)
            };
            Seen {
                cancel: since(|note| &mut note.cancel_seen, is_cancelled),
                missing: since(|note| &mut note.missing_since, is_missing),
                progress: note.progress.as_ref().map_or(Duration::ZERO, |(_, since)| now - *since),
            }
        })
    }

    /// How long ago an object was looked at.
    pub(crate) fn since_look(&self, name: &str, uid: &str) -> Option<Duration> {
        self.with(name, uid, |note| note.looked.map(|looked| looked.elapsed()))
    }

    /// How long ago it was first asked when all data was moved.
    pub(crate) fn since_moved(&self, name: &str, uid: &str) -> Duration {
        self.with(name, uid, |note| note.moved.get_or_insert_with(Instant::now).elapsed())
    }

    /// Notes what a mover reported; whether that is news.
    pub(crate) fn report(&self, name: &str, uid: &str, progress: DataPathProgress) -> bool {
        self.with(name, uid, |note| {
            let is_news = note.progress.as_ref().is_none_or(|(known, _)| *known != progress);
            if is_news {
                note.progress = Some((progress, Instant::now()));
            }
            is_news
        })
    }

    /// Nobody could hear of progress up to now: the time without any begins anew.
    pub(crate) fn excuse(&self, name: &str, uid: &str) {
        let mut notes = lock(&self.0);
        let Some(note) = notes.get_mut(name).filter(|note| note.uid == uid) else { return };
        if let Some((_, since)) = &mut note.progress {
            *since = Instant::now();
        }
    }

    /// What a mover reported last.
    pub(crate) fn reported(&self, name: &str, uid: &str) -> Option<DataPathProgress> {
        self.with(name, uid, |note| note.progress.as_ref().map(|(progress, _)| progress.clone()))
    }

    /// Notes the result that a mover reported; whether that is news.
    pub(crate) fn report_result(&self, name: &str, uid: &str, result: String) -> bool {
        self.with(name, uid, |note| note.result.replace(result).is_none())
    }

    /// The result that a mover reported.
    pub(crate) fn result(&self, name: &str, uid: &str) -> Option<String> {
        self.with(name, uid, |note| note.result.clone())
    }

    /// Has a mover followed, unless it is already. Its time to report begins.
    pub(crate) fn follow(&self, name: &str, uid: &str, follow: impl FnOnce() -> AbortOnDropHandle<()>) {
        self.with(name, uid, |note| {
            if note.follower.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
                note.follower = Some(follow());
                note.progress.get_or_insert_with(|| (DataPathProgress::default(), Instant::now()));
            }
        });
    }

    /// Forgets a transfer, and follows its mover no longer. Gives the UID it was known by.
    pub(crate) fn forget(&self, name: &str) -> Option<String> {
        lock(&self.0).remove(name).map(|note| note.uid)
    }

    fn with<T>(&self, name: &str, uid: &str, work: impl FnOnce(&mut Note) -> T) -> T {
        let mut notes = lock(&self.0);
        let note = notes.entry(name.to_owned()).or_default();
        if note.uid != uid {
            *note = Note { uid: uid.to_owned(), ..Note::default() };
        }
        work(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mover_does_not_stand_still_while_nobody_can_hear_of_it() {
        let notes = Notes::default();
        let progress = DataPathProgress { bytes_done: 1, ..Default::default() };
        assert!(notes.report("a", "1", progress.clone()));
        std::thread::sleep(Duration::from_millis(300));
        notes.excuse("a", "2");
        notes.excuse("b", "1");
        assert!(notes.see("a", "1", false, false).progress >= Duration::from_millis(300), "that was another");
        notes.excuse("a", "1");
        assert!(notes.see("a", "1", false, false).progress < Duration::from_millis(300));
        assert_eq!(notes.reported("a", "1"), Some(progress), "what it has reported is known still");
        assert_eq!(notes.forget("b"), None, "nothing is noted of what is not followed");
    }

    #[test]
    fn what_is_no_longer_so_begins_anew_and_another_object_of_the_name_is_another() {
        let notes = Notes::default();
        assert_eq!(notes.see("a", "1", true, false).missing, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
        assert!(notes.see("a", "1", true, false).cancel >= Duration::from_millis(5));
        assert_eq!(notes.see("a", "1", false, false).cancel, Duration::ZERO);
        let progress = DataPathProgress { bytes_done: 1, ..Default::default() };
        assert!(notes.report("a", "1", progress.clone()));
        assert!(!notes.report("a", "1", progress.clone()), "the same report is no news");
        assert_eq!(notes.reported("a", "1"), Some(progress));
        assert!(notes.report_result("a", "1", "{}".to_owned()));
        assert!(!notes.report_result("a", "1", "{}".to_owned()));
        assert_eq!(notes.result("a", "1").as_deref(), Some("{}"));
        assert_eq!(notes.reported("a", "2"), None);
        assert_eq!(notes.result("a", "2"), None);
        assert_eq!((notes.forget("a").as_deref(), notes.forget("a")), (Some("2"), None));
    }
}
