//! Durations as Go writes them: `720h0m0s`, `1m30.5s`, `100ms`.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Go's `time.Duration` (`metav1.Duration` in a custom resource): signed nanoseconds with the same
/// text in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanoseconds: i64,
}

impl GoDuration {
    /// No time at all, in most fields the mark of "use the default".
    pub const ZERO: Self = Self::from_nanos(0);

    /// A duration of so many nanoseconds.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self { nanoseconds }
    }

    /// A duration of so many seconds; what does not fit becomes the longest or shortest duration.
    pub const fn from_secs(seconds: i64) -> Self {
        Self::from_nanos(seconds.saturating_mul(SECOND as i64))
    }

    /// A duration of so many minutes.
    pub const fn from_mins(minutes: i64) -> Self {
        Self::from_secs(minutes.saturating_mul(60))
    }

    /// A duration of so many hours.
    pub const fn from_hours(hours: i64) -> Self {
        Self::from_secs(hours.saturating_mul(3600))
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanoseconds
    }

    /// Whether the duration is zero, which most fields take as unset.
    pub const fn is_zero(self) -> bool {
        self.nanoseconds == 0
    }

    /// Whether the duration is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanoseconds < 0
    }

    /// This duration, or `default` when it is zero.
    pub const fn or(self, default: Self) -> Self {
        if self.is_zero() { default } else { self }
    }

    /// The duration for timers; a negative one is over already and becomes zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanoseconds).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl From<SignedDuration> for GoDuration {
    fn from(duration: SignedDuration) -> Self {
        let limit = if duration.is_negative() { i64::MIN } else { i64::MAX };
        Self::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(limit))
    }
}

impl From<GoDuration> for SignedDuration {
    fn from(duration: GoDuration) -> Self {
        Self::from_nanos(duration.nanoseconds)
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.nanoseconds.unsigned_abs();
        let sign = if self.is_negative() { "-" } else { "" };
        let text = match nanoseconds {
            0 => "0s".to_owned(),
            1..MICROSECOND => format!("{sign}{nanoseconds}ns"),
            MICROSECOND..MILLISECOND => format!("{sign}{}µs", decimal(nanoseconds, MICROSECOND)),
            MILLISECOND..SECOND => format!("{sign}{}ms", decimal(nanoseconds, MILLISECOND)),
            SECOND..MINUTE => format!("{sign}{}s", decimal(nanoseconds, SECOND)),
            _ => {
                let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
                let seconds = decimal(nanoseconds % MINUTE, SECOND);
                if hours == 0 {
                    format!("{sign}{minutes}m{seconds}s")
                } else {
                    format!("{sign}{hours}h{minutes}m{seconds}s")
                }
            }
        };
        formatter.pad(&text)
    }
}

/// A number of units with its fraction, without trailing zeros.
fn decimal(nanoseconds: u64, unit: u64) -> String {
    let (whole, fraction) = (nanoseconds / unit, nanoseconds % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: {reason}; write it like 720h0m0s, 1h30m or 90s")]
pub struct InvalidDuration {
    text: String,
    reason: &'static str,
}

impl FromStr for GoDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| InvalidDuration { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<GoDuration, &'static str> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(GoDuration::ZERO);
    }
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let part;
        (part, rest) = parse_part(rest)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or("it is too long")?;
    }
    let nanoseconds = match (negative, i64::try_from(total)) {
        (true, _) => 0i64.checked_sub_unsigned(total).ok_or("it is too long")?,
        (false, Ok(nanoseconds)) => nanoseconds,
        (false, Err(_)) => return Err("it is too long"),
    };
    Ok(GoDuration::from_nanos(nanoseconds))
}

/// Reads one number with its unit, gives its nanoseconds and what follows.
fn parse_part(text: &str) -> Result<(u64, &str), &'static str> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err("a number is missing");
    }
    let unit_end = rest.find(|character: char| character == '.' || character.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = match unit {
        "" => return Err("a unit is missing"),
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return Err("the units are ns, us, ms, s, m and h"),
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| "it is too long")? };
    let nanoseconds = whole.checked_mul(unit).and_then(|whole| whole.checked_add(part_of(fraction, unit)));
    Ok((nanoseconds.ok_or("it is too long")?, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The nanoseconds of a decimal fraction of a unit, rounded down.
fn part_of(fraction: &str, unit: u64) -> u64 {
    // Digits beyond the eighteenth are far below a nanosecond of an hour.
    let digits = &fraction[..fraction.len().min(18)];
    let numerator: u128 = digits.parse().unwrap_or(0);
    let part = numerator * u128::from(unit) / 10u128.pow(digits.len() as u32);
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
#[path = "duration_tests.rs"]
mod tests;
