//! What several pages are made of.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;
use tokio::time::timeout;
use velero_api::records::{Results, ResultsFile};
use velero_api::v1::{BackupSpec, HookStatus};
use velero_rules::causes;
use velero_rules::selector::SelectorSet;

use crate::command::{self, Command};
use crate::files::{BESIDE, FileProblem};
use crate::problem::Problem;
use crate::rows::Run;
use crate::text;

/// A phase, in a colour and in words.
pub(crate) fn phase(phase: &str) -> Markup {
    let class = match phase {
        "Completed" | "Available" | "Enabled" | "Processed" => "good",
        "PartiallyFailed" | "WaitingForPluginOperationsPartiallyFailed" | "FinalizingPartiallyFailed" | "Paused" => {
            "doubtful"
        }
        "Failed" | "FailedValidation" | "Unavailable" => "bad",
        _ => "plain",
    };
    html! { span.phase.(class) { (phase) } }
}

/// A moment, and how long ago it was.
pub(crate) fn moment(time: Option<Timestamp>, now: Timestamp) -> Markup {
    match time {
        Some(time) if time <= now => html! { time datetime=(time) title=(time) { (text::span(time, now)) " ago" } },
        Some(time) => html! { time datetime=(time) title=(time) { "in " (text::span(now, time)) } },
        None => html! { span.none { "–" } },
    }
}

/// How far a run is: a bar while it runs, its duration afterwards.
pub(crate) fn progress(run: &Run, now: Timestamp) -> Markup {
    if run.is_under_way && run.total > 0 {
        return html! {
            progress max=(run.total) value=(run.done.min(run.total)) aria-label="Progress" {}
            " " (run.done) " of " (run.total)
        };
    }
    match (run.started, run.ended) {
        (Some(started), Some(ended)) => html! { (text::span(started, ended)) },
        (Some(started), None) if run.is_under_way => html! { (text::span(started, now)) },
        _ => html! { span.none { "–" } },
    }
}

/// Errors and warnings as figures.
pub(crate) fn counts(run: &Run) -> Markup {
    html! {
        @if run.errors > 0 { span.bad { (run.errors) @if run.errors == 1 { " error" } @else { " errors" } } }
        @if run.errors > 0 && run.warnings > 0 { ", " }
        @if run.warnings > 0 { span.doubtful { (run.warnings) @if run.warnings == 1 { " warning" } @else { " warnings" } } }
        @if run.errors == 0 && run.warnings == 0 { span.none { "–" } }
    }
}

/// How many causes are named: those that hit most.
const MOST_CAUSES: usize = 50;
/// How many objects of a cause are named.
const SHOWN: usize = 10;
/// How much of a message is shown.
const LONGEST_MESSAGE: usize = 2000;

/// Errors or warnings, grouped by cause: a thousand objects that one missing right hit are one line.
pub(crate) fn causes(heading: &str, results: &Results) -> Markup {
    let groups = causes::grouped(results);
    let (shown, rest) = groups.split_at(groups.len().min(MOST_CAUSES));
    html! {
        @if !groups.is_empty() {
            h2 { (heading) " by cause" }
            @for group in shown {
                details.cause open[group.count == 1] {
                    summary { span.count { (group.count) "×" } " " (shortened(&group.cause)) }
                    @if let Some(remedy) = group.remedy { p.remedy { (remedy) } }
                    p { (shortened(&group.example)) }
                    ul { @for object in group.objects.iter().take(SHOWN) { li { (object) } } }
                    @if group.objects.len() > SHOWN { p { "and " (group.objects.len() - SHOWN) " more objects: see the log" } }
                }
            }
            @if !rest.is_empty() {
                p { "and " (rest.len()) " more causes of " (rest.iter().map(|group| group.count).sum::<usize>()) " messages: see the log" }
            }
        }
    }
}

/// A message of others, as far as it is shown: what is cut off is marked.
pub(crate) fn shortened(message: &str) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// What went wrong, by cause, as far as it can be read.
pub(crate) fn results(results: Option<Result<ResultsFile, FileProblem>>) -> Markup {
    html! {
        @match results {
            Some(Ok(results)) => { (causes("Errors", &results.errors)) (causes("Warnings", &results.warnings)) },
            Some(Err(problem)) => (Problem::from(problem).note()),
            None => {},
        }
    }
}

/// What files say, beside what is known without them: a store that does not answer keeps nobody from that.
pub(crate) async fn beside(files: impl Future<Output = Markup>) -> Markup {
    let late = || Problem::Away("the files took too long to read: their store is slow or does not answer".to_owned());
    timeout(BESIDE, files).await.unwrap_or_else(|_| late().note())
}

/// How many operations of actions there are, and how many have ended.
pub(crate) fn operations(attempted: i64, completed: i64, failed: i64) -> Markup {
    html! {
        @if attempted == 0 { span.none { "none" } }
        @else { (completed) " of " (attempted) " done" @if failed > 0 { ", " span.bad { (failed) " failed" } } }
    }
}

/// How many hooks have run.
pub(crate) fn hooks(status: Option<&HookStatus>) -> Markup {
    html! {
        @match status.filter(|status| status.hooks_attempted > 0) {
            None => { span.none { "none" } },
            Some(status) => {
                (status.hooks_attempted) " run"
                @if status.hooks_failed > 0 { ", " span.bad { (status.hooks_failed) " failed" } }
            },
        }
    }
}

/// What a backup takes.
pub(crate) fn scope(spec: &BackupSpec) -> Markup {
    let volumes = match (spec.snapshot_move_data, spec.default_volumes_to_fs_backup, spec.snapshot_volumes) {
        (_, Some(true), _) => "copied through the file systems of pods",
        (_, _, Some(false)) => "no snapshots",
        (Some(true), _, _) => "snapshots, whose data is moved",
        _ => "snapshots, where they can be taken",
    };
    let all = |one: &[String], other: &[String]| [one, other].concat();
    let types = all(&spec.included_resources, &spec.included_namespace_scoped_resources);
    let not_types = all(&spec.excluded_resources, &spec.excluded_namespace_scoped_resources);
    let selectors = SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors);
    let selectors = selectors.map(|set| set.queries().join(" or ")).unwrap_or_else(|error| error.to_string());
    let hooks = spec.hooks.resources.len();
    facts(&[
        ("Namespaces", names(&spec.included_namespaces, "all")),
        ("but not", names(&spec.excluded_namespaces, "none")),
        ("Types", names(&types, "all")),
        ("but not", names(&not_types, "none")),
        ("Labels", html! { @if selectors.is_empty() { span.none { "any" } } @else { (selectors) } }),
        ("Volumes", html! { (volumes) }),
        (
            "Hooks",
            html! { @if hooks == 0 { span.none { "those of pods alone" } } @else { (hooks) ", and those of pods" } },
        ),
    ])
}

/// Pairs of a name and what is known of it.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// An object as YAML and as a command, each behind a line that opens it.
pub(crate) fn texts<T: Serialize>(object: &T, command: &Command) -> Markup {
    html! {
        details { summary { "As YAML" } pre tabindex="0" { (command::yaml(object)) } }
        details { summary { "As a command" } (as_command(command)) }
    }
}

/// A command, and what it cannot say.
pub(crate) fn as_command(command: &Command) -> Markup {
    html! {
        pre tabindex="0" { (command.text) }
        @if !command.lacks.is_empty() { p.none { "No flag says this, so it is in the YAML alone: " (command.lacks.join(", ")) "." } }
    }
}

/// A list that a search box belongs to.
pub(crate) fn search(label: &str, value: &str) -> Markup {
    html! {
        form.search method="get" role="search" {
            label { (label) " " input type="search" name="search" value=(value); }
            button { "Search" }
        }
    }
}

/// The way to other pages of the one list that a page has. `rest` is what else the address says, ready to be written into it.
pub(crate) fn pager(page: usize, more: bool, rest: &str) -> Markup {
    pager_of("page", page, more, rest)
}

/// The way to other pages of a list that has this name in the address.
pub(crate) fn pager_of(name: &str, page: usize, more: bool, rest: &str) -> Markup {
    let label = if name == "page" { "Pages of the list".to_owned() } else { format!("Pages of the list: {name}") };
    html! {
        @if page > 0 || more {
            nav.pager aria-label=(label) {
                @if page > 0 { a rel="prev" href=(format!("?{name}={}{rest}", page - 1)) { "Previous" } }
                span { "Page " (page.saturating_add(1)) }
                @if more { a rel="next" href=(format!("?{name}={}{rest}", page + 1)) { "Next" } }
            }
        }
    }
}

/// One entry more for the address of another page.
pub(crate) fn entry(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("&{name}={}", text::address_part(value)) }
}

/// That a list is not all of it: objects that cannot be read, each a way to the page that says why. `place` is where those are.
pub(crate) fn unreadable(place: &str, names: &[String]) -> Markup {
    let (shown, rest) = names.split_at(names.len().min(MOST_NAMES));
    let kind = place.trim_start_matches('/');
    html! {
        @if !names.is_empty() {
            div.note role="note" {
                p { strong { (names.len()) " more " (kind) " cannot be read, and are in no list and no figure: " } "somebody has written into them what makes no sense." }
                ul { @for name in shown { li { a href=(format!("{place}/{name}")) { (name) } } } }
                @if !rest.is_empty() { p { "and " (rest.len()) " more" } }
            }
        }
    }
}

/// How many names of a list are written out, and how many where a page has many such lists.
const MOST_NAMES: usize = 50;
const FEW_NAMES: usize = 5;

/// A list of names, and how many there are beside those that are written out; `all` where it is empty.
pub(crate) fn names(names: &[String], all: &str) -> Markup {
    some_of(names, MOST_NAMES, all)
}

/// The same for the row of a table, where few are written out.
pub(crate) fn few_names(names: &[&str], all: &str) -> Markup {
    some_of(names, FEW_NAMES, all)
}

fn some_of<T: AsRef<str>>(names: &[T], most: usize, all: &str) -> Markup {
    let (shown, rest) = names.split_at(names.len().min(most));
    html! {
        @if names.is_empty() { span.none { (all) } }
        @for (number, name) in shown.iter().enumerate() { @if number > 0 { ", " } (name.as_ref()) }
        @if !rest.is_empty() { ", and " (rest.len()) " more" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_others_is_text() {
        let evil = "<script>alert(1)</script>\"'&";
        let mut results = Results::default();
        results.add(evil, evil);
        for markup in [
            phase(evil),
            causes("Errors", &results),
            search(evil, evil),
            names(&[evil.to_owned()], "all"),
            facts(&[("name", html! { (evil) })]),
            pager(1, true, &entry("search", evil)),
        ] {
            let text = markup.into_string();
            assert!(!text.contains("<script") && !text.contains("\"'"), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_do_not_come_leave_the_rest_of_a_page() {
        assert_eq!(
            beside(async {
                html! { "volumes" }
            })
            .await
            .into_string(),
            "volumes"
        );
        let away = beside(std::future::pending()).await.into_string();
        assert!(away.contains("Cannot be read now") && away.contains("does not answer"), "{away}");
    }

    #[test]
    fn of_thousands_of_names_some_are_written_out_and_all_are_counted() {
        let many: Vec<String> = (0..5000).map(|number| format!("team-{number}")).collect();
        let text = names(&many, "all").into_string();
        assert!(text.starts_with("team-0, team-1, ") && text.ends_with("team-49, and 4950 more"), "{text}");
        assert_eq!(names(&many[..2], "all").into_string(), "team-0, team-1");
        assert!(names(&[], "all").into_string().contains("all"));
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = few_names(&many, "none").into_string();
        assert!(text.ends_with("team-4, and 4995 more"), "{text}");
    }

    #[test]
    fn a_message_that_is_cut_off_is_marked() {
        assert_eq!(shortened(&"ä".repeat(LONGEST_MESSAGE)), "ä".repeat(LONGEST_MESSAGE));
        assert_eq!(shortened(&"ä".repeat(LONGEST_MESSAGE + 1)), "ä".repeat(LONGEST_MESSAGE) + "…");
        let mut results = Results::default();
        results.add("shop", "x".repeat(LONGEST_MESSAGE * 2));
        assert!(causes("Errors", &results).into_string().contains("x…</p>"));
    }

    #[test]
    fn of_thousands_of_causes_some_are_told_and_all_are_counted() {
        let mut results = Results::default();
        for number in 0..2000_usize {
            let word: String = number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
            results.add("shop", format!("nobody has heard of {word} before"));
        }
        let text = causes("Errors", &results).into_string();
        assert_eq!(text.matches("<details").count(), MOST_CAUSES);
        assert!(
            text.contains("and 1950 more causes of 1950 messages") && text.len() < 50 << 10,
            "{} bytes",
            text.len()
        );
    }

    #[test]
    fn objects_that_cannot_be_read_are_named_with_the_way_to_them() {
        assert_eq!(unreadable("/backups", &[]).into_string(), "");
        let text = unreadable("/backups", &["odd".to_owned()]).into_string();
        assert!(text.contains("href=\"/backups/odd\"") && text.contains("1 more backups"), "{text}");
    }

    #[test]
    fn a_list_without_other_pages_has_no_way_to_them() {
        assert_eq!(pager(0, false, "").into_string(), "");
        let middle = pager(2, true, &entry("search", "a&b")).into_string();
        assert!(middle.contains("?page=1&amp;search=a%26b") && middle.contains("?page=3"), "{middle}");
    }

    #[test]
    fn a_run_is_a_bar_while_it_runs_and_a_duration_afterwards() {
        let at = |seconds| Timestamp::from_second(seconds).ok();
        let mut run = Run { started: at(0), done: 3, total: 10, is_under_way: true, ..Run::default() };
        let now = at(100).unwrap();
        assert!(progress(&run, now).into_string().contains("3 of 10"));
        (run.is_under_way, run.ended) = (false, at(61));
        assert_eq!(progress(&run, now).into_string(), "1m 1s");
    }
}
