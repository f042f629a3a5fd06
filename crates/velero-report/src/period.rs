//! How far back a report looks.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use velero_api::GoDuration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A length of time, as `7d`, `2w` or `36h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(Duration);

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPeriod(String);

impl fmt::Display for InvalidPeriod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is no length of time: write 7d, 2w or 36h; at most ten years", self.0)
    }
}

impl std::error::Error for InvalidPeriod {}

impl Period {
    /// So long it is.
    pub fn to_std(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Self, InvalidPeriod> {
        let invalid = || InvalidPeriod(text.to_owned());
        let days = |count: &str, days: u32| count.parse().ok().and_then(|count: u32| count.checked_mul(days));
        let length = match text.strip_suffix('d').map(|count| days(count, 1)) {
            Some(count) => count.map(|count| DAY * count),
            None => match text.strip_suffix('w').map(|count| days(count, 7)) {
                Some(count) => count.map(|count| DAY * count),
                None => text.parse::<GoDuration>().ok().map(GoDuration::to_std),
            },
        };
        let length = length.ok_or_else(invalid)?;
        match !length.is_zero() && length <= DAY * 3653 {
            true => Ok(Self(length)),
            false => Err(invalid()),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds % DAY.as_secs() {
            0 => write!(formatter, "{}d", seconds / DAY.as_secs()),
            _ if seconds.is_multiple_of(3600) => write!(formatter, "{}h", seconds / 3600),
            _ => write!(formatter, "{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_weeks_and_durations_are_understood_and_nothing_else() {
        for (text, hours) in [("7d", 168), ("1w", 168), ("36h", 36), ("1h0m0s", 1)] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.to_std(), Duration::from_secs(hours * 3600), "{text}");
            assert_eq!(period.to_string().parse::<Period>().unwrap(), period, "{text}");
        }
        for text in ["", "d", "-1d", "7", "0d", "0s", "seven", "4000d", "99999999999d", "1y"] {
            assert!(text.parse::<Period>().unwrap_err().to_string().contains("write 7d"), "{text}");
        }
    }
}
