//! What several pages are made of.

use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::records::Results;
use velero_rules::causes;

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
            progress aria-label="Progress" max=(run.total) value=(run.done.min(run.total)) {}
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

/// How many objects of a cause are named.
const SHOWN: usize = 10;
/// How much of a message is shown.
const LONGEST_MESSAGE: usize = 2000;

/// Errors or warnings, grouped by cause: a thousand objects that one missing right hit are one line.
pub(crate) fn causes(heading: &str, results: &Results) -> Markup {
    let groups = causes::grouped(results);
    html! {
        @if !groups.is_empty() {
            h2 { (heading) " by cause" }
            @for group in groups {
                details.cause open[group.count == 1] {
                    summary { span.count { (group.count) "×" } " " (group.cause) }
                    @if let Some(remedy) = group.remedy { p.remedy { (remedy) } }
                    p { (group.example.chars().take(LONGEST_MESSAGE).collect::<String>()) }
                    ul { @for object in group.objects.iter().take(SHOWN) { li { (object) } } }
                    @if group.objects.len() > SHOWN { p { "and " (group.objects.len() - SHOWN) " more objects: see the log" } }
                }
            }
        }
    }
}

/// Pairs of a name and what is known of it.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
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

/// The way to other pages of a list. `rest` is what else the address says, ready to be written into it.
pub(crate) fn pager(page: usize, more: bool, rest: &str) -> Markup {
    html! {
        @if page > 0 || more {
            nav.pager aria-label="Pages of the list" {
                @if page > 0 { a rel="prev" href=(format!("?page={}{rest}", page - 1)) { "Previous" } }
                span { "Page " (page.saturating_add(1)) }
                @if more { a rel="next" href=(format!("?page={}{rest}", page + 1)) { "Next" } }
            }
        }
    }
}

/// One entry more for the address of another page.
pub(crate) fn entry(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("&{name}={}", text::address_part(value)) }
}

/// A namespaced list of names; `all` where it is empty.
pub(crate) fn names(names: &[String], all: &str) -> Markup {
    html! { @if names.is_empty() { span.none { (all) } } @else { (names.join(", ")) } }
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
