//! Whether this process leads, and until when it may write.
//!
//! The time it has is that of a clock that goes on while the process stands still. So a process that was frozen knows it
//! when it goes on, before its next write and not when it has asked somebody. When its time is over it writes nothing until it
//! is known whether another leads.

use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::{WriteGuard, WriteRefused};

/// Why nothing is written any more.
const NOT_LEADING: &str = "this server does not hold its Lease any more, so it writes nothing";

/// How long a write waits for the answer.
const LONGEST_DOUBT: Duration = Duration::from_secs(180);
/// The same once the server is told to end, which it has a minute for.
const LAST_DOUBT: Duration = Duration::from_secs(5);

/// Whether this process leads; clones tell the same.
#[derive(Clone)]
pub(crate) struct Leadership {
    term: watch::Sender<Term>,
    /// Cancelled when the controllers may begin.
    begun: CancellationToken,
    /// Cancelled when the server is told to end.
    stop: CancellationToken,
}

/// For how long it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// It does not lead yet.
    Before,
    /// Until then, if it is not told another time before.
    Until(Instant),
    /// Never again.
    Over,
}

impl Leadership {
    /// That of a process that does not lead yet, and has less patience once it is told to end.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { term: watch::Sender::new(Term::Before), begun: CancellationToken::new(), stop }
    }

    /// Lets this process write until that time.
    pub(crate) fn extend(&self, until: Instant) {
        self.term.send_replace(Term::Until(until));
    }

    /// Lets this process write no more.
    pub(crate) fn end(&self) {
        self.term.send_replace(Term::Over);
    }

    /// Whether this process may write now.
    pub(crate) fn may_write(&self) -> bool {
        matches!(*self.term.borrow(), Term::Until(until) if Instant::now() < until)
    }

    /// Waits until this process may write; an error when it never may again, or when nobody knows for long.
    async fn settled(self) -> Result<(), WriteRefused> {
        let stop = self.stop.clone();
        let told_to_end = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_DOUBT).await;
        };
        let doubt = tokio::select! {
            known = self.known() => return known,
            () = tokio::time::sleep(LONGEST_DOUBT) => LONGEST_DOUBT,
            () = told_to_end => LAST_DOUBT,
        };
        Err(WriteRefused(format!("it has not been known for {doubt:?} whether this server leads")))
    }

    async fn known(self) -> Result<(), WriteRefused> {
        let mut changes = self.term.subscribe();
        loop {
            if *changes.borrow_and_update() == Term::Over {
                return Err(WriteRefused(NOT_LEADING.to_owned()));
            }
            if self.may_write() {
                return Ok(());
            }
            // It cannot fail: the sender is held here.
            let _ = changes.changed().await;
        }
    }

    /// Lets the controllers begin.
    pub(crate) fn begin(&self) {
        self.begun.cancel();
    }

    /// A token that is cancelled when the controllers may begin.
    pub(crate) fn begun(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// What stands before the API server and stores.
    pub(crate) fn guard(&self) -> WriteGuard {
        let (asked, own) = (self.clone(), self.clone());
        WriteGuard::new(move || asked.may_write(), move || own.clone().settled().boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_process_writes_from_the_beginning_of_its_time_to_its_end() {
        let (leadership, now) = (Leadership::new(CancellationToken::new()), Instant::now());
        assert!(!leadership.may_write(), "nobody has let it");
        leadership.extend(now + LONG);
        assert!(leadership.clone().may_write());
        leadership.clone().settled().await.unwrap();
        leadership.extend(now);
        assert!(!leadership.may_write(), "its time is over, and nobody had to tell it");
    }

    #[tokio::test]
    async fn whose_time_is_over_waits_until_it_is_known_who_leads() {
        let leadership = Leadership::new(CancellationToken::new());
        leadership.extend(Instant::now());
        let waiting = tokio::spawn(leadership.clone().settled());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        leadership.extend(Instant::now() + LONG);
        waiting.await.unwrap().unwrap();
        leadership.extend(Instant::now());
        let waiting = tokio::spawn(leadership.clone().settled());
        leadership.end();
        assert!(waiting.await.unwrap().unwrap_err().to_string().contains("does not hold its Lease"));
        assert!(!leadership.may_write());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_and_who_is_told_to_end_not_for_long() {
        let stop = CancellationToken::new();
        let leadership = Leadership::new(stop.clone());
        let began = tokio::time::Instant::now();
        leadership.clone().settled().await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), LONGEST_DOUBT.as_secs());
        stop.cancel();
        let began = tokio::time::Instant::now();
        leadership.settled().await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), LAST_DOUBT.as_secs());
    }
}
