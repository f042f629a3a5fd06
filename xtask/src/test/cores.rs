//! Whether the cores of this machine have time for one more suite.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long the cores are watched before they are called idle: what has just begun has to show what it takes.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// The part of their time that idle cores have nothing to do, or nothing that could not wait.
const IDLE: f64 = 0.15;

/// Watches the cores.
pub(super) struct Cores {
    since: Instant,
    before: Option<Ticks>,
}

/// What the cores have done since the machine started.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Cores {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), before: Ticks::now() }
    }

    /// How many there are.
    pub(super) fn count() -> usize {
        thread::available_parallelism().map_or(1, usize::from)
    }

    /// Whether they were idle since this was last answered; it is answered at most once in a while, else it is no.
    pub(super) fn were_idle(&mut self) -> bool {
        if self.since.elapsed() < WATCHED_FOR {
            return false;
        }
        let now = Ticks::now();
        let idle = self.before.zip(now).is_some_and(|(before, now)| now.idle_since(before) > IDLE);
        *self = Self { since: Instant::now(), before: now };
        idle
    }
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the words of the kernel: user, nice, system, idle, waiting for disks, interrupts of two sorts, stolen.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        // What runs niced, as the lints do beside the tests, stands back for whoever comes.
        Some(Self { idle: ticks.get(1)? + ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
    }

    /// The part of the time since then in which there was nothing to do.
    fn idle_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { self.idle.saturating_sub(before.idle) as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_part_of_the_time_is_what_the_kernel_says() {
        let before = Ticks::of("cpu  90 10 50 800 50 0 0 0 7 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(before, Ticks { idle: 860, all: 1000 });
        let after = Ticks::of("cpu  145 15 70 815 55 0 0 0 9 0\n").unwrap();
        assert!((after.idle_since(before) - 0.25).abs() < 1e-9);
        assert_eq!(before.idle_since(before), 0.0);
        assert_eq!(Ticks::of("cpu  1 2"), None);
    }

    #[test]
    fn cores_that_were_not_watched_long_enough_are_not_called_idle() {
        assert!(!Cores::new().were_idle());
    }
}
