//! How many writes go out at the same time: as many as the API server takes well.
//!
//! The number grows while answers come fast and shrinks when the server asks for patience (status 429) or slows down.

use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use velero_cluster::Cluster;

use crate::lock;

const FIRST: usize = 16;
const FEWEST: usize = 2;
const MOST: usize = 96;
/// Answers that take this many times as long as the best ones mean that requests queue up in the server.
const SLOW: u32 = 8;
/// Nothing under this counts as slow.
const FAST: Duration = Duration::from_millis(100);
/// After a change its effect is awaited.
const PAUSE: Duration = Duration::from_millis(250);

/// Lets a changing number of writes through.
pub(crate) struct Pace {
    gate: Semaphore,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    /// Permits to swallow before the gate is as narrow as the limit says.
    surplus: usize,
    good: usize,
    best: Duration,
    changed: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        let state = State { limit: FIRST, surplus: 0, good: 0, best: Duration::MAX, changed: Instant::now() };
        Self { gate: Semaphore::new(FIRST), state: Mutex::new(state) }
    }

    /// Sends one request when there is room for it.
    pub(crate) async fn send<T>(&self, cluster: &Cluster, request: impl Future<Output = T>) -> T {
        // The gate is never closed.
        let permit = self.gate.acquire().await.ok();
        let (refused, start) = (cluster.refusals_for_load(), Instant::now());
        let answer = request.await;
        let throttled = cluster.refusals_for_load() != refused;
        let swallow = self.learn(start.elapsed(), throttled);
        if let Some(permit) = permit
            && swallow
        {
            permit.forget();
        }
        answer
    }

    /// Takes an answer into account; whether its permit is to be swallowed.
    fn learn(&self, took: Duration, throttled: bool) -> bool {
        let mut state = lock(&self.state);
        state.best = state.best.min(took);
        let slow = took > FAST && took > state.best * SLOW;
        let settled = state.changed.elapsed() > PAUSE;
        if (throttled || slow) && settled {
            let fewer = if throttled { state.limit / 2 } else { state.limit * 3 / 4 }.max(FEWEST);
            state.surplus += state.limit - fewer;
            state.limit = fewer;
            state.changed = Instant::now();
            state.good = 0;
        } else if !throttled && !slow {
            state.good += 1;
            if state.good >= state.limit * 2 && state.limit < MOST {
                state.limit += 1;
                state.good = 0;
                match state.surplus {
                    0 => self.gate.add_permits(1),
                    _ => state.surplus -= 1,
                }
            }
        }
        let swallow = state.surplus > 0;
        state.surplus -= usize::from(swallow);
        swallow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(pace: &Pace) -> usize {
        pace.state.lock().unwrap().limit
    }

    fn settle(pace: &Pace) {
        pace.state.lock().unwrap().changed = Instant::now().checked_sub(2 * PAUSE).unwrap();
    }

    #[test]
    fn fast_answers_open_the_gate_up_to_a_limit() {
        let pace = Pace::new();
        for _ in 0..200_000 {
            assert!(!pace.learn(Duration::from_millis(5), false));
        }
        assert_eq!(limit(&pace), MOST);
        assert_eq!(pace.gate.available_permits(), MOST);
    }

    #[test]
    fn a_refusal_for_load_halves_it_and_slowness_takes_a_quarter() {
        let pace = Pace::new();
        pace.learn(Duration::from_millis(5), false);
        settle(&pace);
        assert!(pace.learn(Duration::from_millis(5), true));
        assert_eq!(limit(&pace), FIRST / 2);
        settle(&pace);
        pace.learn(Duration::from_secs(1), false);
        assert_eq!(limit(&pace), FIRST * 3 / 8);
    }

    #[test]
    fn it_never_closes() {
        let pace = Pace::new();
        for _ in 0..50 {
            settle(&pace);
            pace.learn(Duration::from_secs(1), true);
        }
        assert_eq!(limit(&pace), FEWEST);
    }
}
