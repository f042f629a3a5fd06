//! From text to fields.

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use velero_api::GoDuration;

use super::{CronError, CronSchedule, Fields, Kind};

/// Marks a field written `*` or `?`.
pub(super) const STAR: u64 = 1 << 63;

struct Bounds {
    name: &'static str,
    low: i64,
    high: i64,
    words: &'static [&'static str],
}

const MINUTE: Bounds = Bounds { name: "minute", low: 0, high: 59, words: &[] };
const HOUR: Bounds = Bounds { name: "hour", low: 0, high: 23, words: &[] };
const DAY_OF_MONTH: Bounds = Bounds { name: "day-of-month", low: 1, high: 31, words: &[] };
const MONTH: Bounds = Bounds {
    name: "month",
    low: 1,
    high: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Bounds =
    Bounds { name: "day-of-week", low: 0, high: 6, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Parses a whole expression.
pub(super) fn expression(text: &str) -> Result<CronSchedule, CronError> {
    if text.is_empty() {
        return Err(CronError::Empty);
    }
    let (zone, rest) = split_zone(text)?;
    if rest.starts_with('@') {
        return descriptor(rest, zone);
    }
    fields(rest, zone)
}

fn split_zone(text: &str) -> Result<(Option<TimeZone>, &str), CronError> {
    let Some(named) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let Some((name, rest)) = named.split_once(' ') else {
        return Err(CronError::ZoneOnly { prefix: text.to_owned() });
    };
    let zone = match name {
        "" | "UTC" => Some(TimeZone::UTC),
        "Local" => None,
        _ => Some(TimeZone::get(name).map_err(|_| CronError::Zone { name: name.to_owned() })?),
    };
    Ok((zone, rest.trim()))
}

fn descriptor(text: &str, zone: Option<TimeZone>) -> Result<CronSchedule, CronError> {
    let equivalent = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return every(text),
    };
    fields(equivalent, zone)
}

fn every(text: &str) -> Result<CronSchedule, CronError> {
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(CronError::Descriptor { descriptor: text.to_owned() });
    };
    let duration: GoDuration = duration.parse().map_err(|error: velero_api::duration::InvalidDuration| {
        CronError::Duration { descriptor: text.to_owned(), reason: error.to_string() }
    })?;
    let seconds = SignedDuration::from(duration).as_secs().max(1);
    Ok(CronSchedule { kind: Kind::Every(SignedDuration::from_secs(seconds)) })
}

fn fields(text: &str, zone: Option<TimeZone>) -> Result<CronSchedule, CronError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = fields[..] else {
        return Err(CronError::FieldCount { found: fields.len(), fields: fields.join(" ") });
    };
    let fields = Fields {
        minute: field(minute, &MINUTE)?,
        hour: field(hour, &HOUR)?,
        day_of_month: field(day_of_month, &DAY_OF_MONTH)?,
        month: field(month, &MONTH)?,
        day_of_week: field(day_of_week, &DAY_OF_WEEK)?,
        zone,
    };
    Ok(CronSchedule { kind: Kind::Fields(Box::new(fields)) })
}

fn field(text: &str, bounds: &Bounds) -> Result<u64, CronError> {
    let refuse = |problem| CronError::Field { field: bounds.name, problem };
    let mut bits = 0;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        bits |= range(part, bounds).map_err(refuse)?;
    }
    if bits == 0 {
        return Err(refuse(format!("no value: {text}")));
    }
    Ok(bits)
}

/// Reads `*`, `a`, `a-b`, each with an optional `/step`.
fn range(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let (span, step) = match text.split_once('/') {
        None => (text, None),
        Some((_, step)) if step.contains('/') => return Err(format!("too many slashes: {text}")),
        Some((span, step)) => (span, Some(number(step)?)),
    };
    let (first, last) = match span.split_once('-') {
        None => (span, None),
        Some((first, last)) => (first, Some(last)),
    };
    let is_star = matches!(first, "*" | "?");
    let (start, end) =
        if is_star { (bounds.low, bounds.high) } else { span_of(text, first, last, step.is_some(), bounds)? };
    let step = step.unwrap_or(1);
    check(text, start, end, step, bounds)?;
    let star = if is_star && step == 1 { STAR } else { 0 };
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok((start..=end).step_by(step).fold(star, |bits, value| bits | 1 << value))
}

/// A single value with a step reaches up to the end of the field.
fn span_of(text: &str, first: &str, last: Option<&str>, stepped: bool, bounds: &Bounds) -> Result<(i64, i64), String> {
    let start = number_or_word(first, bounds)?;
    let end = match last {
        Some(last) if last.contains('-') => return Err(format!("too many hyphens: {text}")),
        Some(last) => number_or_word(last, bounds)?,
        None if stepped => bounds.high,
        None => start,
    };
    Ok((start, end))
}

fn check(text: &str, start: i64, end: i64, step: i64, bounds: &Bounds) -> Result<(), String> {
    let Bounds { low, high, .. } = *bounds;
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {text}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_word(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let word = bounds.words.iter().zip(bounds.low..).find(|(word, _)| text.eq_ignore_ascii_case(word));
    match word {
        Some((_, value)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("failed to parse int from {text}: {error}")),
    }
}
