//! From fields to the next activation.
//!
//! The search goes from the month down to the second and starts over whenever a smaller unit wraps around. Hours are
//! added as elapsed time, days as calendar days: that is what decides what happens when clocks are put forward or back.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Zoned};

use super::Fields;
use super::parse::STAR;

const YEARS_AHEAD: i16 = 5;

/// Gives the first activation after a moment, or none within five years.
pub(super) fn next(fields: &Fields, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let following_second = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
    let time = following_second.to_zoned(zone.clone());
    let last_year = time.year().checked_add(YEARS_AHEAD)?;
    let mut search = Search { fields, zone, time, truncated: false };
    while search.time.year() <= last_year {
        let found = search.seek_month()?
            && search.seek_day()?
            && search.seek_hour()?
            && search.seek_minute()?
            && search.seek_second()?;
        if found {
            return Some(search.time.timestamp());
        }
    }
    None
}

struct Search<'a> {
    fields: &'a Fields,
    zone: &'a TimeZone,
    time: Zoned,
    /// Smaller units are set to their beginning once, when the first larger unit moves.
    truncated: bool,
}

/// Each step moves the time until its unit fits. It gives false when that wrapped a larger unit, and none when time
/// ends.
impl Search<'_> {
    fn seek_month(&mut self) -> Option<bool> {
        while !has(self.fields.month, self.time.month()) {
            if self.truncate() {
                self.set_wall_clock(self.time.date().first_of_month().at(0, 0, 0, 0))?;
            }
            self.advance_wall_clock(1.month())?;
            if self.time.month() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn seek_day(&mut self) -> Option<bool> {
        while !self.day_matches() {
            if self.truncate() {
                self.set_wall_clock(self.time.date().at(0, 0, 0, 0))?;
            }
            self.advance_wall_clock(1.day())?;
            self.return_to_midnight()?;
            if self.time.day() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn seek_hour(&mut self) -> Option<bool> {
        while !has(self.fields.hour, self.time.hour()) {
            if self.truncate() {
                let hour = self.time.hour();
                self.set_wall_clock(self.time.date().at(hour, 0, 0, 0))?;
            }
            self.elapse(SignedDuration::from_hours(1))?;
            if self.time.hour() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn seek_minute(&mut self) -> Option<bool> {
        while !has(self.fields.minute, self.time.minute()) {
            if self.truncate() {
                self.elapse(SignedDuration::from_secs(-i64::from(self.time.second())))?;
            }
            self.elapse(SignedDuration::from_mins(1))?;
            if self.time.minute() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn seek_second(&mut self) -> Option<bool> {
        let second = i64::from(self.time.second());
        if second == 0 {
            return Some(true);
        }
        self.truncated = true;
        self.elapse(SignedDuration::from_secs(60 - second))?;
        Some(false)
    }

    fn truncate(&mut self) -> bool {
        !std::mem::replace(&mut self.truncated, true)
    }

    /// With both day fields restricted one match is enough, otherwise both must match.
    fn day_matches(&self) -> bool {
        let Fields { day_of_month, day_of_week, .. } = *self.fields;
        let by_month = has(day_of_month, self.time.day());
        let by_week = has(day_of_week, self.time.weekday().to_sunday_zero_offset());
        if (day_of_month | day_of_week) & STAR != 0 { by_month && by_week } else { by_month || by_week }
    }

    /// Where midnight does not exist, the wall clock lands an hour before or after it.
    fn return_to_midnight(&mut self) -> Option<()> {
        let hour = i64::from(self.time.hour());
        let correction = if hour > 12 { 24 - hour } else { -hour };
        self.elapse(SignedDuration::from_hours(correction))
    }

    fn elapse(&mut self, duration: SignedDuration) -> Option<()> {
        self.time = self.time.timestamp().checked_add(duration).ok()?.to_zoned(self.zone.clone());
        Some(())
    }

    /// Moves by calendar units. A day that a zone left out, as Samoa did when it crossed the date line, leads back to
    /// where the search was: then a day passes instead.
    fn advance_wall_clock(&mut self, units: Span) -> Option<()> {
        let before = self.time.timestamp();
        self.set_wall_clock(self.time.datetime().checked_add(units).ok()?)?;
        if self.time.timestamp() > before {
            return Some(());
        }
        self.elapse(SignedDuration::from_hours(24))
    }

    /// Reads a wall clock the way Go does: the offset in force at that reading of UTC is tried first, then the one in
    /// force at the moment it leads to. This settles readings that daylight saving skips or repeats.
    fn set_wall_clock(&mut self, wall_clock: DateTime) -> Option<()> {
        let as_utc = Offset::UTC.to_timestamp(wall_clock).ok()?;
        let guess = self.zone.to_offset(as_utc).to_timestamp(wall_clock).ok()?;
        let moment = self.zone.to_offset(guess).to_timestamp(wall_clock).ok()?;
        self.time = moment.to_zoned(self.zone.clone());
        Some(())
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}
