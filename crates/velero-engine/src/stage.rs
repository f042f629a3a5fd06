//! The stages of a backup or restore, for those who want to see what took how long: spans of `tracing` under a target of their own.
//!
//! The server makes traces of them where it is asked to. Where it is not, that target is off, and a stage costs next to nothing. What
//! happens once an item is no stage: it is summed up (`Sums`), so that a million items make no more spans than a hundred.
//!
//! Fields whose names begin with `trace.` are for whoever makes traces; all others are told as they are, so none may hold what
//! nobody is to see.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::{Instrument, Level, Span};

use crate::lock;

/// The target of all stages.
pub const TARGET: &str = "velero_trace";

/// A stage that every backup or restore has.
#[macro_export]
macro_rules! stage {
    ($name:literal $(, $($field:tt)*)?) => {
        tracing::info_span!(
            target: $crate::stage::TARGET, $name,
            trace.ended = tracing::field::Empty, trace.failed = tracing::field::Empty $(, $($field)*)?
        )
    };
}

/// A part of a stage of which there may be many: beyond some, they are left out.
#[macro_export]
macro_rules! detail {
    ($name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(
            target: $crate::stage::TARGET, $name,
            trace.ended = tracing::field::Empty, trace.failed = tracing::field::Empty $(, $($field)*)?
        )
    };
}

/// The backup or restore of a UID: stages inside of it belong to its trace, whichever server works on it. Stages inside of
/// none are told nobody.
pub fn of_object(uid: &str) -> Span {
    tracing::info_span!(target: TARGET, "object", trace.object = uid)
}

/// Whether somebody wants to know.
pub fn is_on() -> bool {
    tracing::span_enabled!(target: TARGET, Level::INFO)
}

/// This moment, as stages write it.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Does a piece of work inside a stage, which ends with it: what it has set going may go on.
///
/// The work is boxed: stages lie in each other, and each would hold the next one twice.
pub fn within<T>(stage: Span, work: impl Future<Output = T>) -> impl Future<Output = T> {
    let ends = Ends(stage.clone());
    let work = Box::pin(work.instrument(stage));
    async move {
        let _ends = ends;
        work.await
    }
}

/// Like [`within`], and an error is told as a failure of the stage, without its words.
pub fn try_within<T, E>(stage: Span, work: impl Future<Output = Result<T, E>>) -> impl Future<Output = Result<T, E>> {
    let work = within(stage.clone(), work);
    async move {
        work.await.inspect_err(|_| {
            stage.record("trace.failed", true);
        })
    }
}

/// Ends a stage also where its work is given up.
struct Ends(Span);

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.0.is_disabled() {
            self.0.record("trace.ended", now());
        }
    }
}

/// Calls that are made for many items, summed up: one span for all of a name.
pub(crate) struct Sums {
    word: &'static str,
    /// The stage they belong to; nothing where nobody wants to know.
    around: Option<Span>,
    sums: Mutex<BTreeMap<String, Sum>>,
}

struct Sum {
    span: Span,
    calls: u64,
    failed: u64,
    busy: Duration,
    ended: u64,
}

impl Sums {
    /// Sums up calls of one kind inside a stage.
    pub(crate) fn inside(stage: &Span, word: &'static str) -> Self {
        Self { word, around: (!stage.is_disabled()).then(|| stage.clone()), sums: Mutex::default() }
    }

    /// Makes a call and adds it to those of its name.
    pub(crate) async fn add<T, E>(&self, name: &str, call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let Some(around) = &self.around else { return call.await };
        self.begin(around, name);
        let began = Instant::now();
        let done = call.await;
        if let Some(sum) = lock(&self.sums).get_mut(name) {
            sum.calls += 1;
            sum.failed += u64::from(done.is_err());
            sum.busy += began.elapsed();
            sum.ended = now();
        }
        done
    }

    fn begin(&self, around: &Span, name: &str) {
        let mut sums = lock(&self.sums);
        if sums.contains_key(name) {
            return;
        }
        let span = tracing::info_span!(
            target: TARGET, parent: around, "sum",
            trace.name = format!("{} {name}", self.word),
            trace.ended = tracing::field::Empty,
            trace.failed = tracing::field::Empty,
            velero.calls = tracing::field::Empty,
            velero.calls_failed = tracing::field::Empty,
            velero.busy_seconds = tracing::field::Empty,
        );
        sums.insert(name.to_owned(), Sum { span, calls: 0, failed: 0, busy: Duration::ZERO, ended: now() });
    }
}

impl Drop for Sums {
    fn drop(&mut self) {
        for Sum { span, calls, failed, busy, ended } in lock(&self.sums).values() {
            span.record("velero.calls", calls);
            span.record("velero.calls_failed", failed);
            span.record("velero.busy_seconds", busy.as_secs_f64());
            span.record("trace.failed", *failed > 0);
            span.record("trace.ended", ended);
        }
    }
}
