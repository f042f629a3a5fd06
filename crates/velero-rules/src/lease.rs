//! Which of several servers leads: one holds a Lease, and renews it for as long as it does.
//!
//! Times here are of one clock of one process that never goes back, told as time since any moment. Clocks of two machines
//! are never compared: a Lease counts as renewed when it is seen to be another one than before.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;

/// The name of the Lease, in the namespace of the servers.
pub const LEASE_NAME: &str = "velero-server";
/// On the Lease: who holds it and the process of that holder, so that a successor on the same machine can see that it is gone.
pub const HOLDER_PROCESS: &str = "velero.io/holder-process";

/// The shortest time for which a Lease may be held without being renewed: an API server under load takes seconds.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// The longest one: so long nobody would work after a server has died.
pub const LONGEST: Duration = Duration::from_secs(300);

/// How often a server that waits looks at the Lease, at least.
const LOOK: Duration = Duration::from_secs(1);

/// For how long a Lease is held without being renewed, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    duration: Duration,
}

impl Terms {
    /// Terms with this duration; nothing unless it is a number of whole seconds between [`SHORTEST`] and [`LONGEST`].
    pub fn new(duration: Duration) -> Option<Self> {
        let fits = (SHORTEST..=LONGEST).contains(&duration) && duration.subsec_nanos() == 0;
        fits.then_some(Self { duration })
    }

    /// How long after the last renewal that was seen others may take the Lease.
    pub fn duration(self) -> Duration {
        self.duration
    }

    /// How long after the last renewal the holder renews it.
    pub fn renewal(self) -> Duration {
        self.duration / 5
    }

    /// How long after the last renewal the holder stops to write, if it could not renew: well before others may begin.
    pub fn patience(self) -> Duration {
        self.duration * 7 / 10
    }

    /// How often a server that waits looks.
    pub fn look(self) -> Duration {
        LOOK.min(self.renewal())
    }
}

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Who holds it; nobody when it was given back.
    pub holder: String,
    /// When it was renewed, in microseconds of the clock of its holder. It is only compared with itself.
    pub renewed: Option<i64>,
    /// For how long it is held without being renewed.
    pub duration: Option<Duration>,
}

impl From<&Lease> for Said {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0.as_microsecond()),
            duration: seconds.map(Duration::from_secs),
        }
    }
}

/// What a server that waits has seen of the Lease.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    said: Option<Said>,
    since: Duration,
}

impl Observed {
    /// Notes what the Lease says now; nothing when there is none. Whether the holder has changed.
    pub fn note(&mut self, said: Option<&Said>, now: Duration) -> bool {
        // A Lease that was deleted says nothing: who held it does not know yet, and makes it again.
        let Some(said) = said.filter(|said| self.said.as_ref() != Some(*said)) else { return false };
        let is_other = self.holder() != said.holder;
        (self.said, self.since) = (Some(said.clone()), now);
        is_other
    }

    /// Who holds it; nobody when it is free.
    pub fn holder(&self) -> &str {
        self.said.as_ref().map_or("", |said| &said.holder)
    }

    /// How long it is until a server with these terms may take it.
    pub fn free_in(&self, own: Terms, now: Duration) -> Duration {
        match &self.said {
            Some(said) if !said.holder.is_empty() => {
                // Who wrote it stops by its own duration; one that no server can have must not keep all of them waiting.
                let duration = said.duration.unwrap_or(own.duration).clamp(own.duration, LONGEST);
                (self.since + duration).saturating_sub(now)
            }
            _ => Duration::ZERO,
        }
    }
}

/// The Lease in the hands of this server.
#[derive(Clone, Debug)]
pub struct Held {
    identity: String,
    terms: Terms,
    renewed_at: Duration,
    /// The last renewal that is known to be written, and those sent after it, whose answers may have been lost: the time
    /// in it, and when it was sent.
    sent: Vec<(i64, Duration)>,
}

impl Held {
    /// A Lease that was taken by a write sent at that time, with that time of renewal in it.
    pub fn taken(identity: &str, terms: Terms, renewed: i64, sent_at: Duration) -> Self {
        Self { identity: identity.to_owned(), terms, renewed_at: sent_at, sent: vec![(renewed, sent_at)] }
    }

    /// Until when this server may write without knowing more.
    pub fn until(&self) -> Duration {
        self.renewed_at + self.terms.patience()
    }

    /// Whether it is still this server's for sure.
    pub fn is_sure(&self, now: Duration) -> bool {
        now < self.until()
    }

    /// When it is to be renewed.
    pub fn next_renewal(&self) -> Duration {
        self.renewed_at + self.terms.renewal()
    }

    /// Notes that a renewal with that time in it is sent now.
    pub fn sending(&mut self, renewed: i64, now: Duration) {
        self.sent.push((renewed, now));
    }

    /// Notes that the renewal sent last is written.
    pub fn renewed(&mut self) {
        self.known_written(self.sent.len().saturating_sub(1));
    }

    /// Whether a Lease that is not as this server left it is still its own; nothing was found when it was deleted. A renewal
    /// whose answer was lost is known again.
    pub fn judge(&mut self, said: Option<&Said>, now: Duration) -> Result<(), Loss> {
        let Some(said) = said else {
            // Others count on as if it were there, but only so long.
            return if self.is_sure(now) { Ok(()) } else { Err(Loss::Deleted) };
        };
        if said.holder != self.identity {
            return Err(Loss::Taken(said.holder.clone()));
        }
        let written = self.sent.iter().position(|(renewed, _)| said.renewed == Some(*renewed));
        self.known_written(written.ok_or(Loss::Doubled)?);
        Ok(())
    }

    fn known_written(&mut self, index: usize) {
        self.sent.drain(..index);
        if let Some((_, sent_at)) = self.sent.first() {
            self.renewed_at = *sent_at;
        }
    }
}

/// Why a server does not hold the Lease any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was deleted while it could not be renewed, so that another may have held it in between.
    Deleted,
    /// Another has written itself into it, or nobody.
    Taken(String),
    /// Another process renews it in the name of this one.
    Doubled,
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => formatter.write_str("it was deleted while it could not be renewed"),
            Self::Taken(holder) if holder.is_empty() => formatter.write_str("somebody else has given it back"),
            Self::Taken(holder) => write!(formatter, "{holder:?} has taken it"),
            Self::Doubled => formatter.write_str("another process renews it under the same identity"),
        }
    }
}

/// Whether somebody who reads a Lease takes its holder for alive; nothing when only a second look can tell.
///
/// `age` is how long ago it was renewed, by two clocks: that of the holder, who wrote it, and that of the API server. They
/// may differ, so a Lease that looks old, or as if it came from the future, is looked at twice: only one that stands still is
/// that of a server that is gone.
pub fn is_alive(said: &Said, age: SignedDuration) -> Option<bool> {
    // One that no server can have says nothing of a server.
    let duration = said.duration.unwrap_or(SHORTEST).min(LONGEST);
    match Duration::try_from(age) {
        _ if said.holder.is_empty() => Some(false),
        Ok(age) if age <= duration => Some(true),
        Err(_) if age > SignedDuration::from_secs(-2) => Some(true),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn terms() -> Terms {
        Terms::new(10 * SECOND).unwrap()
    }

    fn said(holder: &str, renewed: i64) -> Said {
        Said { holder: holder.to_owned(), renewed: Some(renewed), duration: Some(10 * SECOND) }
    }

    #[test]
    fn a_duration_is_of_whole_seconds_and_neither_too_short_nor_too_long() {
        for (milliseconds, fits) in
            [(0, false), (4_999, false), (5_000, true), (5_500, false), (300_000, true), (301_000, false)]
        {
            assert_eq!(Terms::new(Duration::from_millis(milliseconds)).is_some(), fits, "{milliseconds}");
        }
    }

    #[test]
    fn whoever_holds_it_stops_before_others_may_begin() {
        for seconds in [5, 10, 15, 300] {
            let terms = Terms::new(seconds * SECOND).unwrap();
            assert!(terms.renewal() * 3 < terms.patience(), "{seconds}");
            assert!(terms.patience() + SECOND < terms.duration(), "{seconds}");
            assert!(terms.look() <= SECOND && terms.look() <= terms.renewal(), "{seconds}");
        }
    }

    /// What was seen, and when; and how long it takes from the hundredth second on.
    type Case<'a> = (&'a [(Option<Said>, u32)], u32);

    #[test]
    fn a_lease_is_free_when_it_is_not_there_was_given_back_or_was_not_renewed_for_its_duration() {
        let longer = Said { duration: Some(30 * SECOND), ..said("a", 1) };
        let shorter = Said { duration: Some(SECOND), ..said("a", 1) };
        let endless = Said { duration: Some(Duration::from_secs(u32::MAX.into())), ..said("a", 1) };
        let undated = Said { renewed: None, duration: None, ..said("a", 1) };
        let cases: [Case<'_>; 11] = [
            (&[], 0),
            (&[(None, 100)], 0),
            (&[(Some(said("", 1)), 100)], 0),
            (&[(Some(said("a", 1)), 100)], 10),
            (&[(Some(said("a", 1)), 93), (Some(said("a", 1)), 99)], 3),
            (&[(Some(said("a", 1)), 93), (Some(said("a", 2)), 99)], 9),
            (&[(Some(said("a", 1)), 80), (Some(said("a", 1)), 99)], 0),
            (&[(Some(said("a", 1)), 96), (None, 99)], 6),
            (&[(Some(longer), 96)], 26),
            (&[(Some(shorter), 96)], 6),
            (&[(Some(undated), 96)], 6),
        ];
        for (seen, expected) in cases {
            let mut observed = Observed::default();
            for (said, at) in seen {
                observed.note(said.as_ref(), *at * SECOND);
            }
            assert_eq!(observed.free_in(terms(), 100 * SECOND), expected * SECOND, "{seen:?}");
        }
        let mut observed = Observed::default();
        observed.note(Some(&endless), 100 * SECOND);
        assert_eq!(observed.free_in(terms(), 100 * SECOND), LONGEST, "nobody waits for ever");
    }

    #[test]
    fn a_reader_looks_twice_where_clocks_may_be_wrong() {
        for (holder, milliseconds, expected) in [
            ("a", 0, Some(true)),
            ("a", 10_000, Some(true)),
            ("a", 10_001, None),
            ("a", -1_900, Some(true)),
            ("a", -2_000, None),
            ("a", -3_600_000, None),
            ("", 0, Some(false)),
            ("", 99_000, Some(false)),
        ] {
            let age = SignedDuration::from_millis(milliseconds);
            assert_eq!(is_alive(&said(holder, 1), age), expected, "{holder:?} {milliseconds}");
        }
        let endless = Said { duration: Some(Duration::from_secs(u32::MAX.into())), ..said("a", 1) };
        for (seconds, expected) in [(300, Some(true)), (301, None)] {
            assert_eq!(is_alive(&endless, SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn a_new_holder_is_told_once() {
        let mut observed = Observed::default();
        let told = [("a", 1), ("a", 2), ("b", 3), ("b", 3), ("", 4)]
            .map(|(holder, renewed)| observed.note(Some(&said(holder, renewed)), SECOND));
        assert_eq!(told, [true, false, true, false, true]);
    }

    #[test]
    fn the_holder_works_until_its_patience_after_the_last_renewal_it_sent() {
        let mut held = Held::taken("us", terms(), 1, 20 * SECOND);
        assert_eq!((held.next_renewal(), held.until()), (22 * SECOND, 27 * SECOND));
        held.sending(2, 22 * SECOND);
        assert_eq!(held.until(), 27 * SECOND, "an answer that is not there extends nothing");
        held.renewed();
        assert_eq!((held.next_renewal(), held.until()), (24 * SECOND, 29 * SECOND));
    }

    #[test]
    fn a_lease_is_ours_with_our_name_and_a_time_that_we_wrote() {
        let mut held = Held::taken("us", terms(), 1, SECOND);
        held.sending(2, 2 * SECOND);
        held.sending(3, 3 * SECOND);
        // Until which second it may work then.
        for (found, expected) in [
            (None, Ok(8)),
            (Some(said("us", 1)), Ok(8)),
            (Some(said("us", 2)), Ok(9)),
            (Some(said("us", 3)), Ok(10)),
            (Some(said("us", 4)), Err(Loss::Doubled)),
            (Some(said("them", 4)), Err(Loss::Taken("them".to_owned()))),
            (Some(said("", 3)), Err(Loss::Taken(String::new()))),
        ] {
            let mut held = held.clone();
            let judged = held.judge(found.as_ref(), 7 * SECOND).map(|()| held.until().as_secs());
            assert_eq!(judged, expected, "{found:?}");
        }
        assert_eq!(held.clone().judge(None, 8 * SECOND), Err(Loss::Deleted), "another may have had it");
        assert_eq!(held.clone().judge(Some(&said("us", 1)), 99 * SECOND), Ok(()), "nobody has had it since");
        held.renewed();
        assert_eq!(held.judge(Some(&said("us", 2)), SECOND), Err(Loss::Doubled), "an older one cannot come back");
        assert_eq!(held.judge(Some(&said("us", 3)), SECOND), Ok(()));
    }
}
