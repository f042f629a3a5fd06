//! How often somebody may try to sign in: tokens cannot be guessed, but each try is a question to the API server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How many tries may fail within a minute, from one address.
const MOST_FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// How many addresses are remembered. When there are more, all wait for a window.
const MOST_ADDRESSES: usize = 1024;

/// The tries that failed of late.
#[derive(Default)]
pub(crate) struct Attempts {
    failed: HashMap<IpAddr, (Instant, u32)>,
}

impl Attempts {
    /// Whether an address may try now.
    pub(crate) fn may_try(&mut self, address: IpAddr, now: Instant) -> bool {
        self.failed.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        match self.failed.get(&address) {
            Some((_, count)) => *count < MOST_FAILURES,
            None => self.failed.len() < MOST_ADDRESSES,
        }
    }

    /// A try of an address has failed.
    pub(crate) fn note_failure(&mut self, address: IpAddr, now: Instant) {
        self.failed.entry(address).or_insert((now, 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_ten_failures_an_address_waits_a_minute_and_others_do_not() {
        let (mut attempts, begin) = (Attempts::default(), Instant::now());
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..MOST_FAILURES {
            assert!(attempts.may_try(bad, begin));
            attempts.note_failure(bad, begin);
        }
        assert!(!attempts.may_try(bad, begin) && attempts.may_try(good, begin));
        assert!(!attempts.may_try(bad, begin + Duration::from_secs(59)));
        assert!(attempts.may_try(bad, begin + WINDOW));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut attempts, begin) = (Attempts::default(), Instant::now());
        for number in 0..u32::try_from(MOST_ADDRESSES).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            assert!(attempts.may_try(address, begin));
            attempts.note_failure(address, begin);
        }
        assert!(!attempts.may_try(IpAddr::from([255, 0, 0, 1]), begin));
        assert!(attempts.may_try(IpAddr::from([255, 0, 0, 1]), begin + WINDOW) && attempts.failed.is_empty());
    }
}
