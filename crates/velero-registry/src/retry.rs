//! Trying again what can succeed.

use std::time::Duration;

use tracing::warn;

use crate::Problem;

/// The longest a registry can make us wait by asking for it.
const LONGEST_WISH: Duration = Duration::from_secs(60);

/// How often something is tried again, and how long the pauses between are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The pause before each further attempt; with none, everything is tried once.
    pub pauses: Vec<Duration>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { pauses: [500, 1_000, 2_000, 4_000, 8_000, 16_000].map(Duration::from_millis).to_vec() }
    }
}

impl Retry {
    /// Tries until it succeeds, cannot succeed, or the pauses are used up.
    pub(crate) async fn run<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Problem>
    where
        F: Future<Output = Result<T, Problem>>,
    {
        let mut attempts = self.attempts();
        loop {
            match attempt().await {
                Err(problem) if attempts.another_after(&problem).await => {}
                outcome => return outcome,
            }
        }
    }

    pub(crate) fn attempts(&self) -> Attempts {
        Attempts { pauses: self.pauses.clone().into_iter() }
    }
}

/// The attempts that are left.
pub(crate) struct Attempts {
    pauses: std::vec::IntoIter<Duration>,
}

impl Attempts {
    /// Waits before the next attempt; `false` where there is none or it cannot help.
    pub(crate) async fn another_after(&mut self, problem: &Problem) -> bool {
        if !problem.is_retriable() {
            return false;
        }
        let Some(pause) = self.pauses.next() else { return false };
        let pause = pause.max(problem.retry_after().unwrap_or_default().min(LONGEST_WISH));
        warn!(%problem, ?pause, "trying again");
        tokio::time::sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tries_of(problem: impl Fn() -> Problem, pauses: usize) -> usize {
        let mut tries = 0;
        let retry = Retry { pauses: vec![Duration::ZERO; pauses] };
        let outcome: Result<(), Problem> = retry
            .run(|| {
                tries += 1;
                std::future::ready(Err(problem()))
            })
            .await;
        assert!(outcome.is_err());
        tries
    }

    #[tokio::test]
    async fn what_can_succeed_is_tried_once_more_than_there_are_pauses() {
        let down = || Problem::Unreachable { registry: "r".into(), reason: "refused".into() };
        assert_eq!(tries_of(down, 3).await, 4);
        assert_eq!(tries_of(down, 0).await, 1);
    }

    #[tokio::test]
    async fn what_cannot_succeed_is_tried_once() {
        assert_eq!(tries_of(|| Problem::NotFound { registry: "r".into(), what: "it".into() }, 3).await, 1);
    }
}
