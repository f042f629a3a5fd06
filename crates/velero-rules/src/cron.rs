//! Cron expressions as the schedules of Velero understand them: five fields, names, ranges, steps, `?`,
//! `@yearly` … `@hourly`, `@every 1h30m`, and a `TZ=` or `CRON_TZ=` prefix.

mod parse;
mod search;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Why a cron expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Nothing was given.
    #[error("empty spec string")]
    Empty,
    /// Not five fields.
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    FieldCount {
        /// How many fields there are.
        found: usize,
        /// The fields.
        fields: String,
    },
    /// A field that cannot be read.
    #[error("{problem} in the {field} field")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A time zone prefix without a zone that exists.
    #[error("provided bad location {name}: use a name of the time zone database such as Europe/Berlin")]
    Zone {
        /// The name given.
        name: String,
    },
    /// A time zone prefix with nothing after it.
    #[error("no cron expression after {prefix}")]
    ZoneOnly {
        /// The prefix.
        prefix: String,
    },
    /// An `@every` whose duration cannot be read.
    #[error("failed to parse duration {descriptor}: {reason}")]
    Duration {
        /// The whole descriptor.
        descriptor: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An `@` word that does not exist.
    #[error("unrecognized descriptor: {descriptor}")]
    Descriptor {
        /// The word.
        descriptor: String,
    },
}

/// A parsed cron expression.
#[derive(Debug, Clone, PartialEq)]
pub struct CronSchedule {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Every(SignedDuration),
    Fields(Box<Fields>),
}

/// One bit a value; bit 63 says that the field was written `*` or `?`.
#[derive(Debug, Clone, PartialEq)]
struct Fields {
    minute: u64,
    hour: u64,
    day_of_month: u64,
    month: u64,
    day_of_week: u64,
    zone: Option<TimeZone>,
}

impl CronSchedule {
    /// Parses a cron expression.
    pub fn parse(expression: &str) -> Result<Self, CronError> {
        parse::expression(expression)
    }

    /// Gives the first activation after a moment, or none within five years.
    ///
    /// `server_zone` counts where the expression names no zone of its own. An hour that daylight saving skips has no
    /// activation, one that it repeats has two, except for intervals, which count elapsed time.
    pub fn next(&self, after: Timestamp, server_zone: &TimeZone) -> Option<Timestamp> {
        match &self.kind {
            Kind::Every(delay) => {
                let whole_second = Timestamp::from_second(after.as_second()).ok()?;
                whole_second.checked_add(*delay).ok()
            }
            Kind::Fields(fields) => search::next(fields, after, fields.zone.as_ref().unwrap_or(server_zone)),
        }
    }
}

#[cfg(test)]
mod tests;
