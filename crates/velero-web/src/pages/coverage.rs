//! What has no recent good backup, and why: namespaces, workloads and claims.

use std::sync::Arc;

use axum::extract::{Query, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use maud::{Markup, html};
use serde::Deserialize;
use velero_cluster::{ListedMetadata, list_metadata_kept};
use velero_report::{Covers, Gap, NamespaceFact, Protection, Taken, protection};

use super::covered_claims::{self, CLAIMS};
use super::covered_objects::{self, Covered, WORKLOADS};
use super::paged::Paged;
use super::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How old a backup may be, in hours, unless somebody says.
const USUAL_HOURS: i64 = 26;
const MOST_HOURS: i64 = 24 * 365;
/// How many lines a page of each list has.
pub(super) const PAGE: usize = 50;

/// The rights without which there is nothing to show.
const NEEDED: [Right; 3] =
    [Right::to("list", "backups"), Right::to("list", "schedules"), Right::in_cluster("list", "namespaces")];

/// What is to be shown.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// How old a backup may be.
    hours: i64,
    /// A part of the names of namespaces.
    search: String,
    /// The pages of the lists: namespaces without a good backup, workloads, claims, namespaces with one.
    without: usize,
    workloads: usize,
    claims: usize,
    with: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { hours: USUAL_HOURS, search: String::new(), without: 0, workloads: 0, claims: 0, with: 0 }
    }
}

impl Wanted {
    /// How old a backup may be, in hours.
    fn longest(&self) -> i64 {
        self.hours.clamp(1, MOST_HOURS)
    }

    /// One of the lists of the page.
    fn list(&self, name: &'static str) -> Paged {
        let pages =
            [("without", self.without), ("workloads", self.workloads), ("claims", self.claims), ("with", self.with)];
        let others = parts::entry("hours", &self.hours.to_string()) + &parts::entry("search", &self.search);
        Paged::among(name, &pages, &others)
    }
}

/// What workloads and claims somebody may look at.
#[derive(Clone, Copy, Debug, PartialEq)]
struct May {
    workloads: [bool; 3],
    claims: [bool; 2],
}

/// What a coverage is made for: who asks and what that person may look at, how often backups and schedules had changed,
/// the second it tells of, and what is wanted.
#[derive(PartialEq)]
pub(crate) struct Key {
    who: Arc<str>,
    may: May,
    versions: [u64; 2],
    second: i64,
    wanted: Wanted,
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    user.must_all(NEEDED).await?;
    let may = May { workloads: user.may_each(WORKLOADS).await?, claims: user.may_each(CLAIMS).await? };
    let (now, index) = (Timestamp::now(), &shared.index);
    let key = Key {
        who: user.who(),
        may,
        versions: [index.backups.version(), index.schedules.version()],
        second: now.as_second(),
        wanted: wanted.clone(),
    };
    let found = shared.coverages.get(key, find(&shared, &user, may, &wanted, now)).await?;
    let body = html! {
        h1 { "Coverage" }
        form.search method="get" role="search" {
            label { "A good backup within the last " input type="number" name="hours" min="1" max=(MOST_HOURS) value=(wanted.longest()); " hours" }
            label { "Namespaces with " input type="search" name="search" value=(wanted.search); }
            button { "Show" }
        }
        p { "A namespace is safe when a backup of all of it was Completed within that time." }
        (found)
    };
    Ok(layout::page(&user, "/coverage", "Coverage", &body))
}

/// Looks at all namespaces, workloads and claims, for a few people at a time: each has pages of lists in memory.
async fn find(shared: &Shared, user: &User, may: May, wanted: &Wanted, now: Timestamp) -> Result<Markup, Problem> {
    let _place = shared.coverage_places.acquire().await;
    let search = wanted.search.trim().to_lowercase();
    let keep = |metadata: ListedMetadata| metadata.name.contains(&search).then(|| NamespaceFact::from(metadata));
    let listed = list_metadata_kept::<Namespace, _>(user.cluster().client(), keep).await;
    let namespaces = user.checked("list namespaces", listed)?;
    let index = &shared.index;
    let (backups, schedules) = (index.backups.rows().await?, index.schedules.rows().await?);
    let unreadable = html! {
        (parts::unreadable("/backups", &index.backups.unreadable().await?))
        (parts::unreadable("/schedules", &index.schedules.unreadable().await?))
    };
    let covers = Covers::of(&namespaces, schedules.iter().map(|row| (&*row.name, &*row.whole)));
    let found = protection(&covers, backups.iter().filter_map(|row| row.taken()));
    let longest = SignedDuration::from_hours(wanted.longest());
    let covered = Covered { covers: &covers, found: &found, now, longest };
    let (of_workloads, of_claims) = (wanted.list("workloads"), wanted.list("claims"));
    let (workloads, claims) = tokio::join!(
        covered_objects::workloads(user, may.workloads, &covered, &of_workloads),
        covered_claims::claims(shared, user, may.claims, &covered, &of_claims)
    );
    let (gaps, safe): (Vec<_>, Vec<_>) = found.iter().partition(|found| found.gap(now, longest).is_some());
    Ok(html! {
        (unreadable)
        h2 { (gaps.len()) " namespaces without" }
        (table(&gaps, &covered, &wanted.list("without")))
        h2 { "Workloads" }
        (workloads)
        h2 { "Claims" }
        (claims)
        h2 { (safe.len()) " namespaces with" }
        (table(&safe, &covered, &wanted.list("with")))
    })
}

fn table(rows: &[&Protection<'_>], covered: &Covered<'_>, paged: &Paged) -> Markup {
    let shown = paged.part(rows, PAGE);
    html! {
        @if !shown.is_empty() {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Namespace" } th { "Last good backup" } th { "Why" } th { "Schedules that take it" } } }
                tbody { @for row in shown { (table_row(row, covered)) } }
            } }
        }
        @else if !rows.is_empty() { p.none { "There are not so many." } }
        (paged.pager(rows.len(), PAGE))
    }
}

fn table_row(row: &Protection<'_>, Covered { covers, now, longest, .. }: &Covered<'_>) -> Markup {
    let (gap, schedules) = (row.gap(*now, *longest), row.schedules(covers).collect::<Vec<_>>());
    html! {
        tr {
            td { (row.namespace) }
            td { @match &row.last_good {
                Some(good) => { (link(good)) ", " (parts::moment(Some(good.at), *now)) },
                None => { span.none { "–" } },
            } }
            td { (why(gap, schedules.is_empty(), *now)) }
            td {
                (parts::few_names(&schedules, "none"))
                @if row.is_in_part(covers) { " (only some of its objects)" }
            }
        }
    }
}

fn link(taken: &Taken<'_>) -> Markup {
    html! { a href=(format!("/backups/{}", taken.backup)) { (taken.backup) } }
}

fn why(gap: Option<Gap<'_>>, has_no_schedule: bool, now: Timestamp) -> Markup {
    html! {
        @match &gap {
            None => { span.good { "safe" } },
            Some(Gap::LeftOut) => { span.doubtful { "its label leaves it out of backups" } },
            Some(Gap::NoBackup) => { span.bad { "no backup has it" } @if has_no_schedule { ", and no schedule will" } },
            Some(Gap::TooOld) => { span.bad { "its last good backup is too old" } },
            Some(Gap::Failing(taken)) => { (link(taken)) " ended " (parts::phase(taken.phase)) " " (parts::moment(Some(taken.at), now)) },
            Some(Gap::OnlyParts(taken)) => { (link(taken)) " takes only some of its objects: by labels or types" },
        }
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Schedule, ScheduleSpec};
    use velero_report::Scope;

    use super::*;

    #[test]
    fn of_many_schedules_that_take_a_namespace_few_are_named_and_all_are_counted() {
        let spec = ScheduleSpec { schedule: "@daily".to_owned(), ..ScheduleSpec::default() };
        let schedule = Schedule::new("velero", "s", spec);
        let schedules: Vec<String> = (0..500).map(|number| format!("schedule-of-the-team-{number:03}")).collect();
        let namespaces: Vec<NamespaceFact> = (0..PAGE)
            .map(|number| NamespaceFact { name: format!("team-{number}"), ..NamespaceFact::default() })
            .collect();
        let covers = Covers::of(&namespaces, schedules.iter().map(|name| (name.as_str(), &schedule)));
        let found = protection(&covers, []);
        let rows: Vec<&Protection<'_>> = found.iter().collect();
        let (now, longest) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(1));
        let covered = Covered { covers: &covers, found: &found, now, longest };
        let text = table(&rows, &covered, &Wanted::default().list("without")).into_string();
        assert_eq!(text.matches("and 495 more").count(), PAGE);
        assert!(text.contains("schedule-of-the-team-004") && !text.contains("schedule-of-the-team-005"), "{text}");
        assert!(text.len() < 25 << 10, "{} bytes", text.len());
    }

    #[test]
    fn thousands_of_namespaces_are_shown_a_small_page_at_a_time() {
        let names: Vec<NamespaceFact> = (0..5000)
            .map(|number| NamespaceFact {
                name: format!("team-{number}"),
                is_left_out: number == 0,
                ..NamespaceFact::default()
            })
            .collect();
        let (scope, at) = (Scope::default(), Timestamp::UNIX_EPOCH);
        let taken = Taken { backup: "b", phase: "PartiallyFailed", begun: at, at, is_good: false, scope: &scope };
        let covers = Covers::of(&names, []);
        let found = protection(&covers, [taken]);
        let rows: Vec<&Protection<'_>> = found.iter().collect();
        let (now, longest) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(1));
        let covered = Covered { covers: &covers, found: &found, now, longest };
        let page = |wanted: &Wanted| table(&rows, &covered, &wanted.list("without")).into_string();
        let first = page(&Wanted { search: "team&".to_owned(), claims: 3, ..Wanted::default() });
        assert!(first.len() < 25 << 10, "{} bytes", first.len());
        assert!(first.contains("?without=1&amp;hours=26&amp;search=team%26&amp;claims=3"), "{first}");
        assert!(first.contains("its label leaves it out") && first.contains("PartiallyFailed"), "{first}");
        let last = page(&Wanted { without: 99, ..Wanted::default() });
        assert_eq!((last.matches("<tr>").count(), last.contains("rel=\"next\"")), (PAGE + 1, false), "with its head");
        assert!(page(&Wanted { without: usize::MAX, ..Wanted::default() }).contains("There are not so many"));
    }
}
