//! The report as text: sections that make sense without colour and within sixty columns, as far as names do.

use jiff::Timestamp;
use velero_report::{Report, ScheduleRow, Summary, bytes_text, time_text};

use super::Clock;
use super::table::Table;
use crate::printer::Style;

/// The most rows of a list that grows with the cluster; the other forms have more.
const MOST_ROWS: usize = 50;

/// The report as text.
pub(crate) fn report_text(report: &Report, style: Style, clock: &Clock) -> String {
    let mut text = format!("Backups from {} to {} UTC\n", minute(report.from), minute(report.until));
    text.push_str(&match report.is_well() {
        true => format!("{}\n", style.green("All that was asked for was backed up.")),
        false => format!("{}\n", style.red("Something needs attention.")),
    });
    text.push_str(&summary(&report.summary));
    if !report.not_seen.is_empty() {
        text.push_str("\nNot seen, so that the report says nothing about it:\n");
        report.not_seen.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    }
    section(&mut text, "Schedules", schedules(report, clock));
    section(&mut text, "Not completed", failures(report));
    section(&mut text, "Namespaces that no schedule covers", uncovered(report, clock));
    section(&mut text, "Claims whose data no schedule saves", claims(report));
    section(&mut text, "Locations that are not available", locations(report));
    section(&mut text, "Sizes", sizes(report));
    text
}

fn minute(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M").to_string()
}

fn summary(all: &Summary) -> String {
    let mut text = format!(
        "  Backups:    {} ({} completed, {} partially failed, {} failed, {} not ended)\n  Runs:       {} ({} missed, {} skipped on \
         purpose)\n  Restores:   {} ({} completed)\n  Items:      {}\n  Data:       {} of volumes\n",
        all.backups,
        all.completed,
        all.partially_failed,
        all.failed,
        all.unfinished,
        all.runs_expected,
        all.runs_missed,
        all.runs_skipped,
        all.restores,
        all.restores_completed,
        all.items,
        bytes_text(all.bytes)
    );
    for (word, number, not_covered) in
        [("Namespaces:", all.namespaces, all.namespaces_not_covered), ("Claims:", all.claims, all.claims_not_covered)]
    {
        if let (Some(number), Some(not_covered)) = (number, not_covered) {
            text.push_str(&format!("  {word:11} {number} ({not_covered} covered by no schedule)\n"));
        }
    }
    text
}

/// A heading and a table; nothing when it is empty.
fn section(text: &mut String, heading: &str, (table, left_out): (Table, usize)) {
    let table = table.render();
    if table.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}:\n"));
    table.lines().for_each(|line| text.push_str(&format!("  {}\n", line.trim_end())));
    if left_out > 0 {
        text.push_str(&format!("  and {left_out} more: -o json has all\n"));
    }
}

fn rows<T>(all: &[T], row: impl Fn(&T) -> Vec<String>) -> (Vec<Vec<String>>, usize) {
    (all.iter().take(MOST_ROWS).map(row).collect(), all.len().saturating_sub(MOST_ROWS))
}

fn schedules(report: &Report, clock: &Clock) -> (Table, usize) {
    let (rows, left_out) = rows(&report.schedules, |row| {
        let state = match (row.problem.is_empty(), row.paused) {
            (false, _) => "refused",
            (true, true) => "paused",
            (true, false) => "enabled",
        };
        vec![
            row.name.clone(),
            state.to_owned(),
            row.expected.to_string(),
            row.completed.to_string(),
            (row.failed + row.partially_failed).to_string(),
            row.missed.to_string(),
            row.skipped.to_string(),
            row.last_good.map_or_else(|| "never".to_owned(), |last| clock.distance(Some(last))),
        ]
    });
    (Table::new(&["name", "state", "runs", "good", "bad", "missed", "skipped", "last good"], rows), left_out)
}

fn failures(report: &Report) -> (Table, usize) {
    let (rows, left_out) = rows(&report.failures, |row| {
        let why = match row.reason.as_str() {
            "" => format!("velero {} describe {}", row.kind, row.name),
            reason => reason.to_owned(),
        };
        let when = row.when.map(minute).unwrap_or_default();
        vec![row.kind.to_owned(), row.name.clone(), row.phase.clone(), when, row.errors.to_string(), why]
    });
    (Table::new(&["what", "name", "phase", "when", "errors", "why"], rows), left_out)
}

fn uncovered(report: &Report, clock: &Clock) -> (Table, usize) {
    let own: Vec<_> =
        report.namespaces.iter().filter(|row| row.schedules.is_empty() && !row.system && !row.left_out).collect();
    let (rows, left_out) = rows(&own, |row| {
        let last = row.last_good.map_or_else(|| "never".to_owned(), |last| clock.distance(Some(last)));
        vec![row.name.clone(), last]
    });
    (Table::new(&["name", "last good backup"], rows), left_out)
}

fn claims(report: &Report) -> (Table, usize) {
    let (rows, left_out) =
        rows(&report.claims_not_covered, |row| vec![format!("{}/{}", row.namespace, row.name), row.why.to_owned()]);
    (Table::new(&["claim", "why"], rows), left_out)
}

fn locations(report: &Report) -> (Table, usize) {
    let away: Vec<_> = report.locations.iter().filter(|row| !row.available).collect();
    let (rows, left_out) = rows(&away, |row| vec![row.name.clone(), row.message.clone()]);
    (Table::new(&["name", "why"], rows), left_out)
}

/// How the good backups of each schedule changed from the first to the last.
fn sizes(report: &Report) -> (Table, usize) {
    let with_history: Vec<&ScheduleRow> = report.schedules.iter().filter(|row| !row.history.is_empty()).collect();
    let (rows, left_out) = rows(&with_history, |row| {
        let change = |text: &dyn Fn(&velero_report::Point) -> String| match (row.history.first(), row.history.last()) {
            (Some(first), Some(last)) if row.history.len() > 1 => format!("{} -> {}", text(first), text(last)),
            (Some(only), _) => text(only),
            (None, _) => String::new(),
        };
        let time = |seconds: i64| time_text(std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
        vec![
            row.name.clone(),
            change(&|point| point.items.to_string()),
            change(&|point| bytes_text(point.bytes)),
            change(&|point| time(point.seconds)),
        ]
    });
    (Table::new(&["schedule", "items", "data", "time"], rows), left_out)
}
