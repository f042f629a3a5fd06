//! How often requests were sent again, and why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a request was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// The server asked for fewer requests.
    Throttled,
    /// The server said that it has a problem.
    ServerError,
    /// There was no connection, or it broke.
    NoAnswer,
    /// This process kept the request back at the last moment, since it was not known whether it may write.
    KeptBack,
}

impl RetryCause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Throttled, Self::ServerError, Self::NoAnswer, Self::KeptBack];

    /// The name of the cause in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::ServerError => "server_error",
            Self::NoAnswer => "no_answer",
            Self::KeptBack => "kept_back",
        }
    }
}

/// Counts requests that were sent again.
#[derive(Debug, Default)]
pub(crate) struct Repeated([AtomicU64; RetryCause::ALL.len()]);

impl Repeated {
    pub(crate) fn count(&self, cause: RetryCause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, cause: RetryCause) -> u64 {
        self.0[cause as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_count_and_a_name_of_its_own() {
        let repeated = Repeated::default();
        for (number, cause) in RetryCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            (0..=number).for_each(|_| repeated.count(cause));
        }
        let counts = RetryCause::ALL.map(|cause| repeated.of(cause));
        assert_eq!(counts, [1, 2, 3, 4]);
        let names: std::collections::BTreeSet<_> = RetryCause::ALL.map(RetryCause::name).into();
        assert_eq!(names.len(), RetryCause::ALL.len());
    }
}
