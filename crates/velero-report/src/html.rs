//! The report as a page that stands alone: no script, nothing from elsewhere, and every text of others escaped.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;

use crate::chart::{bars, line};
use crate::report::{NamespaceRow, Report, ScheduleRow, bytes_text, time_text};

/// The most rows of a list that grows with the cluster; the JSON has all.
const MOST_ROWS: usize = 500;

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1b1f24;--back:#fff;--soft:#57606a;--edge:#d0d7de;--good:#1a7f37;--part:#9a6700;--bad:#cf222e;--mark:#0550ae}\
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--back:#0d1117;--soft:#9198a1;--edge:#3d444d;--good:#3fb950;--part:#d29922;--bad:#f85149;--mark:#58a6ff}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);margin:2rem auto;max-width:70rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid var(--edge)}\
caption{text-align:left;color:var(--soft)}td{font-variant-numeric:tabular-nums}.wide{overflow-x:auto}\
.bad{color:var(--bad);fill:var(--bad)}.part{color:var(--part);fill:var(--part)}.good{color:var(--good);fill:var(--good)}\
.line{fill:none;stroke:var(--mark);stroke-width:2}.mark{fill:var(--mark)}.soft{color:var(--soft)}svg{max-width:100%;height:auto}\
@media print{body{margin:0;max-width:none}}";

/// A text that means nothing but itself in a page.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            control if control.is_control() && !control.is_whitespace() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// The report as a page.
pub fn html(report: &Report) -> String {
    let title = format!("Backups from {} to {}", day(report.from), day(report.until));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src \
         'none'; style-src 'unsafe-inline'\"><title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\n",
        title = escaped(&title)
    );
    summary(&mut page, report);
    not_seen(&mut page, report);
    chart(&mut page, report);
    schedules(&mut page, report);
    failures(&mut page, report);
    namespaces(&mut page, report);
    claims(&mut page, report);
    locations(&mut page, report);
    let _ = writeln!(
        page,
        "<p class=\"soft\">Made by Velero in namespace {} at {}. All times are UTC.</p></main></body></html>",
        escaped(&report.server_namespace),
        moment(Some(report.until))
    );
    page
}

fn day(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d").to_string()
}

fn moment(moment: Option<Timestamp>) -> String {
    moment.map_or_else(|| "never".to_owned(), |moment| moment.strftime("%Y-%m-%d %H:%M").to_string())
}

/// A number that is bad news unless it is nothing.
fn worry(number: usize, class: &str) -> String {
    match number {
        0 => "0".to_owned(),
        number => format!("<strong class=\"{class}\">{number}</strong>"),
    }
}

fn summary(page: &mut String, report: &Report) {
    let all = &report.summary;
    let verdict = match report.is_well() {
        true => "<p class=\"good\">All that was asked for was backed up.</p>",
        false => "<p class=\"bad\"><strong>Something needs attention.</strong></p>",
    };
    page.push_str(verdict);
    page.push_str("<ul>");
    let (part, bad) = (worry(all.partially_failed, "part"), worry(all.failed, "bad"));
    let _ = write!(
        page,
        "<li>Backups: {}; completed {}, partially failed {part}, failed {bad}, not ended {}</li><li>Runs of schedules: {}; \
         missed {}, skipped on purpose {}</li><li>Restores: {}; completed {}</li><li>Items in these backups: {}; data of \
         volumes moved or copied: {}</li>",
        all.backups,
        all.completed,
        all.unfinished,
        all.runs_expected,
        worry(all.runs_missed, "bad"),
        all.runs_skipped,
        all.restores,
        all.restores_completed,
        all.items,
        bytes_text(all.bytes)
    );
    for (word, number, not_covered) in
        [("Namespaces", all.namespaces, all.namespaces_not_covered), ("Claims", all.claims, all.claims_not_covered)]
    {
        if let (Some(number), Some(not_covered)) = (number, not_covered) {
            let _ = write!(page, "<li>{word}: {number}; covered by no schedule {}</li>", worry(not_covered, "bad"));
        }
    }
    page.push_str("</ul>\n");
}

fn not_seen(page: &mut String, report: &Report) {
    if report.not_seen.is_empty() {
        return;
    }
    page.push_str("<h2>What could not be seen</h2><p>This report says nothing about it.</p><ul>");
    for note in &report.not_seen {
        let _ = write!(page, "<li>{}</li>", escaped(note));
    }
    page.push_str("</ul>\n");
}

fn chart(page: &mut String, report: &Report) {
    page.push_str("<h2>Day by day</h2>\n");
    page.push_str(&bars(&report.days, "How backups ended, day by day; the table below has the figures"));
    let head = ["Day", "Completed", "Partially failed", "Failed", "Items", "Data of volumes", "Time"];
    table(page, "Backups by the day on which they were made", &head, report.days.iter(), |row| {
        vec![
            row.date.to_string(),
            row.completed.to_string(),
            worry(row.partially_failed, "part"),
            worry(row.failed, "bad"),
            row.items.to_string(),
            bytes_text(row.bytes),
            seconds(row.seconds),
        ]
    });
}

fn seconds(seconds: i64) -> String {
    time_text(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn schedules(page: &mut String, report: &Report) {
    page.push_str("<h2>Schedules</h2>\n");
    let head = ["Schedule", "When", "Runs", "Completed", "Failed", "Missed", "Skipped", "Last good", "Next", "Trend"];
    table(page, "What schedules made", &head, report.schedules.iter(), |row| {
        let state = match (row.problem.as_str(), row.paused) {
            ("", false) => String::new(),
            ("", true) => " <strong class=\"part\">paused</strong>".to_owned(),
            (problem, _) => format!(" <strong class=\"bad\">{}</strong>", escaped(problem)),
        };
        vec![
            escaped(&row.name) + &state,
            escaped(&row.schedule),
            row.expected.to_string(),
            row.completed.to_string(),
            worry(row.failed + row.partially_failed, "bad"),
            worry(row.missed, "bad"),
            row.skipped.to_string(),
            moment(row.last_good),
            row.next.map_or_else(|| "none".to_owned(), |next| moment(Some(next))),
            trend(row),
        ]
    });
}

/// How items, data and time of a schedule changed, in words and as lines.
fn trend(row: &ScheduleRow) -> String {
    let (Some(first), Some(last)) = (row.history.first(), row.history.last()) else { return String::new() };
    let mut text = String::new();
    let values = |value: fn(&crate::report::Point) -> f64| row.history.iter().map(value).collect::<Vec<_>>();
    let lines = [
        ("items", values(|point| point.items as f64), format!("{} → {}", first.items, last.items)),
        (
            "data",
            values(|point| point.bytes as f64),
            format!("{} → {}", bytes_text(first.bytes), bytes_text(last.bytes)),
        ),
        (
            "time",
            values(|point| point.seconds as f64),
            format!("{} → {}", seconds(first.seconds), seconds(last.seconds)),
        ),
    ];
    for (word, values, change) in lines {
        let label = format!("{word} of the good backups of {}: {change}", row.name);
        let _ = write!(text, "<div>{} {word} {}</div>", line(&values, &label), escaped(&change));
    }
    text
}

fn failures(page: &mut String, report: &Report) {
    page.push_str("<h2>What did not complete</h2>\n");
    let head = ["What", "Name", "Phase", "When", "Errors", "Warnings", "Why"];
    table(page, "Backups and restores that did not complete, newest first", &head, report.failures.iter(), |row| {
        vec![
            row.kind.to_owned(),
            escaped(&row.name),
            format!("<span class=\"bad\">{}</span>", escaped(&row.phase)),
            moment(row.when),
            row.errors.to_string(),
            row.warnings.to_string(),
            match row.reason.as_str() {
                "" => format!("<code>velero {} describe {}</code>", row.kind, escaped(&row.name)),
                reason => escaped(reason),
            },
        ]
    });
}

fn namespaces(page: &mut String, report: &Report) {
    page.push_str("<h2>Namespaces</h2>\n");
    let head = ["Namespace", "Schedules", "Last good backup", "When"];
    table(page, "Those that no schedule covers come first", &head, report.namespaces.iter(), |row| {
        vec![
            escaped(&row.name),
            coverage(row),
            escaped(row.last_backup.as_deref().unwrap_or("none")),
            moment(row.last_good),
        ]
    });
}

fn coverage(row: &NamespaceRow) -> String {
    match (row.schedules.is_empty(), row.in_part) {
        (true, _) if row.left_out => "left out by its label".to_owned(),
        (true, _) if row.system => "none (of Kubernetes or Velero itself)".to_owned(),
        (true, _) => "<strong class=\"bad\">none</strong>".to_owned(),
        (false, true) => format!("{} <span class=\"part\">(a part of it)</span>", escaped(&row.schedules.join(", "))),
        (false, false) => escaped(&row.schedules.join(", ")),
    }
}

fn claims(page: &mut String, report: &Report) {
    page.push_str("<h2>Claims whose data no schedule saves</h2>\n");
    table(page, "", &["Namespace", "Claim", "Why"], report.claims_not_covered.iter(), |row| {
        vec![escaped(&row.namespace), escaped(&row.name), escaped(row.why)]
    });
}

fn locations(page: &mut String, report: &Report) {
    page.push_str("<h2>Locations</h2>\n");
    table(page, "", &["Location", "State", "Why"], report.locations.iter(), |row| {
        let state = if row.available { "available" } else { "<strong class=\"bad\">not available</strong>" };
        vec![escaped(&row.name), state.to_owned(), escaped(&row.message)]
    });
}

/// A table, or a word where it would be empty. Cells are safe already.
fn table<T>(
    page: &mut String,
    caption: &str,
    head: &[&str],
    rows: impl ExactSizeIterator<Item = T>,
    cells: impl Fn(T) -> Vec<String>,
) {
    let count = rows.len();
    if count == 0 {
        page.push_str("<p>None.</p>\n");
        return;
    }
    page.push_str("<div class=\"wide\" tabindex=\"0\"><table>");
    if !caption.is_empty() {
        let _ = write!(page, "<caption>{}</caption>", escaped(caption));
    }
    page.push_str("<thead><tr>");
    for name in head {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(name));
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows.take(MOST_ROWS) {
        page.push_str("<tr>");
        for (position, cell) in cells(row).into_iter().enumerate() {
            let _ = match position {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    if count > MOST_ROWS {
        let _ = writeln!(page, "<p>And {} more; the JSON form has all.</p>", count - MOST_ROWS);
    }
}
