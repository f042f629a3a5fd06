//! How often a store gave an answer after which a request is sent again, and which.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// An answer after which a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The store asks for fewer requests.
    Throttled,
    /// The store says that it has a problem.
    ServerError,
    /// There was no connection, or it broke.
    NoAnswer,
}

impl Trouble {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Throttled, Self::ServerError, Self::NoAnswer];

    /// The name of the trouble in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::ServerError => "server_error",
            Self::NoAnswer => "no_answer",
        }
    }

    /// The trouble that the status of an answer tells of. Stores say with 503 that they are asked too much.
    fn of_status(status: StatusCode) -> Option<Self> {
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some(Self::Throttled),
            status if status.is_server_error() => Some(Self::ServerError),
            _ => None,
        }
    }
}

/// Counts troubles with stores.
#[derive(Debug, Default)]
pub struct Troubles([AtomicU64; Trouble::ALL.len()]);

impl Troubles {
    /// Counts an answer, where there was one, if it tells of trouble.
    pub(crate) fn note(&self, status: Option<StatusCode>) {
        let trouble = status.map_or(Some(Trouble::NoAnswer), Trouble::of_status);
        if let Some(trouble) = trouble {
            self.0[trouble as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often there was that trouble so far.
    pub fn of(&self, trouble: Trouble) -> u64 {
        self.0[trouble as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_are_counted_by_what_the_store_answers() {
        let troubles = Troubles::default();
        for (number, trouble) in Trouble::ALL.into_iter().enumerate() {
            assert_eq!(trouble as usize, number);
        }
        for status in [200, 404, 412, 429, 503, 500, 502, 504] {
            troubles.note(Some(StatusCode::from_u16(status).unwrap()));
        }
        troubles.note(None);
        assert_eq!(Trouble::ALL.map(|trouble| troubles.of(trouble)), [2, 3, 1]);
    }
}
