//! The places among the backups that run: who has one, and who lost it because the API server refuses its start.
//!
//! A backup gets its place with its turn, and is ready to start then. Where it is not let begin, it leaves the place to others and
//! is put off; after that, as after a start of the server, it asks for a place again, ahead of those whose turn has not come.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupPhase};
use velero_rules::queue::QueueState;

/// The first and the longest time for which a backup is put off. The first is longer than others need to have their turn.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// Who has a place, by the names of the backups.
#[derive(Default)]
pub(super) struct Places {
    taken: BTreeMap<String, Place>,
    refused: BTreeMap<String, Refused>,
}

/// A place that is taken.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It is kept for one whose turn has come.
    Kept,
    /// Its backup has come to begin.
    InUse,
}

/// A backup whose start is refused.
#[derive(Default)]
struct Refused {
    times: u32,
    put_off_until: Option<Instant>,
}

/// What a backup hears that comes to begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has a place.
    HasCome,
    /// It has none.
    IsAwaited,
    /// It has none, and is put off for this time.
    IsPutOff(Duration),
}

impl Places {
    /// How many are taken.
    pub(super) fn count(&self) -> usize {
        self.taken.len()
    }

    /// Keeps a place for a backup whose turn has come.
    pub(super) fn keep(&mut self, backup: &str) {
        self.taken.insert(backup.to_owned(), Place::Kept);
        // That was another one of this name.
        self.refused.remove(backup);
    }

    /// Keeps a place no longer whose backup could not be told so, unless it has come nevertheless.
    pub(super) fn keep_no_longer(&mut self, backup: &str) {
        if self.taken.get(backup) == Some(&Place::Kept) {
            self.taken.remove(backup);
        }
    }

    /// A backup comes to begin.
    pub(super) fn come(&mut self, backup: &str, now: Instant) -> Turn {
        if let Some(place) = self.taken.get_mut(backup) {
            *place = Place::InUse;
            return Turn::HasCome;
        }
        self.put_off_for(backup, now).map_or(Turn::IsAwaited, Turn::IsPutOff)
    }

    /// Gives a place to a backup that has come.
    pub(super) fn take(&mut self, backup: &str) {
        self.taken.insert(backup.to_owned(), Place::InUse);
    }

    /// Takes the place of a backup whose start is refused; gives the time for which it is put off.
    pub(super) fn put_off(&mut self, backup: &str, now: Instant) -> Duration {
        self.taken.remove(backup);
        let refused = self.refused.entry(backup.to_owned()).or_default();
        let pause = PAUSES.0.saturating_mul(1 << refused.times.min(16)).min(PAUSES.1);
        refused.times += 1;
        refused.put_off_until = now.checked_add(pause);
        pause
    }

    /// A backup needs no place any more.
    pub(super) fn leave(&mut self, backup: &str) {
        self.taken.remove(backup);
        self.refused.remove(backup);
    }

    /// Where a backup stands; nothing where it neither runs nor is to be started now.
    pub(super) fn state(&self, backup: &Backup, now: Instant) -> Option<QueueState> {
        match backup.status.phase() {
            BackupPhase::Queued => Some(QueueState::Queued { position: backup.status.queue_position }),
            BackupPhase::InProgress => Some(QueueState::Running),
            BackupPhase::ReadyToStart if self.taken.contains_key(name(backup)) => Some(QueueState::Running),
            BackupPhase::ReadyToStart if self.put_off_for(name(backup), now).is_some() => None,
            BackupPhase::ReadyToStart => Some(QueueState::Ready),
            _ => None,
        }
    }

    /// For how long a backup is put off from now on, if it is.
    fn put_off_for(&self, backup: &str, now: Instant) -> Option<Duration> {
        let until = self.refused.get(backup)?.put_off_until?;
        until.checked_duration_since(now).filter(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to one backup.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Keep,
        KeepNoLonger,
        Come,
        Take,
        PutOff,
        Leave,
        /// So many seconds go by.
        Wait(u64),
    }

    /// What the backup hears at last, when it comes or is put off.
    fn after(steps: &[Step]) -> (Places, Instant, Option<Turn>) {
        let (mut places, mut now, mut told) = (Places::default(), Instant::now(), None);
        for step in steps {
            match step {
                Step::Keep => places.keep("b"),
                Step::KeepNoLonger => places.keep_no_longer("b"),
                Step::Come => told = Some(places.come("b", now)),
                Step::Take => places.take("b"),
                Step::PutOff => told = Some(Turn::IsPutOff(places.put_off("b", now))),
                Step::Leave => places.leave("b"),
                Step::Wait(seconds) => now += Duration::from_secs(*seconds),
            }
        }
        (places, now, told)
    }

    #[test]
    fn a_backup_that_is_ready_has_a_place_waits_for_one_or_is_put_off() {
        use Step::{Come, Keep, KeepNoLonger, Leave, PutOff, Take, Wait};
        use Turn::{HasCome, IsAwaited, IsPutOff};
        let (running, ready) = (Some(QueueState::Running), Some(QueueState::Ready));
        let put_off = |seconds| Some(IsPutOff(Duration::from_secs(seconds)));
        type Row<'a> = (&'a [Step], Option<Turn>, Option<QueueState>);
        let table: [Row<'_>; 14] = [
            (&[Come], Some(IsAwaited), ready),
            (&[Come, Take], Some(IsAwaited), running),
            (&[Come, Take, Come], Some(HasCome), running),
            (&[Keep], None, running),
            (&[Keep, Come], Some(HasCome), running),
            (&[Keep, KeepNoLonger, Come], Some(IsAwaited), ready),
            (&[Keep, Come, KeepNoLonger], Some(HasCome), running),
            (&[Keep, Come, Leave], Some(HasCome), ready),
            (&[Keep, Come, PutOff], put_off(10), None),
            (&[Keep, Come, PutOff, Wait(7), Come], put_off(3), None),
            (&[Keep, Come, PutOff, Wait(10)], put_off(10), ready),
            (&[Keep, Come, PutOff, Wait(10), Come, Take, PutOff], put_off(20), None),
            (&[Keep, Come, PutOff, PutOff, PutOff, PutOff, PutOff, PutOff, PutOff], put_off(300), None),
            (&[Keep, Come, PutOff, Leave, Keep, Come, PutOff], put_off(10), None),
        ];
        for (steps, told, state) in table {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.status.phase = Some(BackupPhase::ReadyToStart);
            let (places, now, heard) = after(steps);
            assert_eq!((heard, places.state(&backup, now)), (told, state), "{steps:?}");
            assert_eq!(places.count(), usize::from(state == running), "{steps:?}");
        }
    }

    #[test]
    fn only_one_that_is_ready_is_asked_for_its_place() {
        use BackupPhase::{Completed, InProgress, New, Queued};
        let now = Instant::now();
        let mut places = Places::default();
        places.put_off("b", now);
        for (phase, state) in [
            (New, None),
            (Queued, Some(QueueState::Queued { position: 0 })),
            (InProgress, Some(QueueState::Running)),
            (Completed, None),
        ] {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.status.phase = Some(phase.clone());
            assert_eq!(places.state(&backup, now), state, "{phase:?}");
        }
    }
}
