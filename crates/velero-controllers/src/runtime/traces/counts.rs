//! What became of spans.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The collector has it.
    Sent,
    /// The collector did not take it, or too many waited for it.
    Lost,
    /// Its backup or restore has too many of its kind.
    LeftOut,
}

impl Fate {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Sent, Self::Lost, Self::LeftOut];

    /// How metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Lost => "lost",
            Self::LeftOut => "left_out",
        }
    }
}

/// How many spans met which fate.
pub(crate) struct Counts([AtomicU64; 3]);

/// Those of this process: it has one log, and so one place where its traces come from.
pub(crate) static OF_PROCESS: Counts = Counts::new();

impl Counts {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 3])
    }

    /// Notes that so many spans met a fate.
    pub(crate) fn add(&self, fate: Fate, spans: usize) {
        self.0[fate as usize].fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// How many spans met a fate so far.
    pub(crate) fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize].load(Ordering::Relaxed)
    }
}
