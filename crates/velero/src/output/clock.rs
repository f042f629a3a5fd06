//! Times as Go programs print them.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The moment of printing and the reader's time zone.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now: Timestamp,
    zone: TimeZone,
}

impl Clock {
    /// The clock and zone of this machine.
    pub(crate) fn system() -> Self {
        Self { now: Timestamp::now(), zone: TimeZone::system() }
    }

    /// The moment of printing.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// A time, as in `2026-11-15 09:25:00 +0000 UTC`.
    pub(crate) fn text(&self, time: &Time) -> String {
        time.0.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string()
    }

    /// A time that may be missing, and what is shown then.
    pub(crate) fn text_or(&self, time: Option<&Time>, missing: &str) -> String {
        time.map_or_else(|| missing.to_owned(), |time| self.text(time))
    }

    /// How far away a time is: `29d`, or `3h ago`.
    pub(crate) fn distance(&self, time: Option<Timestamp>) -> String {
        match time {
            None => "n/a".to_owned(),
            Some(time) if time >= self.now => short_duration(time.duration_since(self.now)),
            Some(time) => format!("{} ago", short_duration(self.now.duration_since(time))),
        }
    }

    /// A time zone's local time in fourteen digits, for names.
    pub(crate) fn digits(&self) -> String {
        self.now.to_zoned(self.zone.clone()).strftime("%Y%m%d%H%M%S").to_string()
    }

    /// The same clock in UTC.
    pub(crate) fn in_utc(self) -> Self {
        Self { zone: TimeZone::UTC, ..self }
    }
}

/// A duration by its largest unit.
pub(crate) fn short_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match () {
        () if seconds < 60 => format!("{seconds}s"),
        () if minutes < 60 => format!("{minutes}m"),
        () if hours < 24 => format!("{hours}h"),
        () if hours < 24 * 365 => format!("{}d", hours / 24),
        () => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(now: &str) -> Clock {
        Clock { now: now.parse().unwrap(), zone: TimeZone::UTC }
    }

    #[test]
    fn a_distance_names_its_largest_unit() {
        let clock = clock("2026-01-01T00:00:00Z");
        for (time, expected) in [
            ("2026-01-01T00:00:00Z", "0s"),
            ("2026-01-01T00:00:59Z", "59s"),
            ("2026-01-01T00:59:59Z", "59m"),
            ("2026-01-01T23:59:00Z", "23h"),
            ("2026-01-30T23:59:00Z", "29d"),
            ("2028-01-02T00:00:00Z", "2y"),
            ("2025-12-31T21:00:00Z", "3h ago"),
        ] {
            assert_eq!(clock.distance(Some(time.parse().unwrap())), expected, "{time}");
        }
        assert_eq!(clock.distance(None), "n/a");
    }

    #[test]
    fn a_time_is_shown_with_its_zone() {
        let time = Time("2026-11-15T09:25:00Z".parse().unwrap());
        assert_eq!(clock("2026-01-01T00:00:00Z").text(&time), "2026-11-15 09:25:00 +0000 UTC");
        let berlin = Clock { now: Timestamp::UNIX_EPOCH, zone: TimeZone::get("Europe/Berlin").unwrap() };
        assert_eq!(berlin.text(&time), "2026-11-15 10:25:00 +0100 CET");
    }
}
