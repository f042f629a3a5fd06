//! What has no recent good backup, and why: namespaces, workloads and claims.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use maud::{Markup, html};
use serde::Deserialize;
use velero_cluster::list_metadata_kept;
use velero_report::{Cover, Gap, NamespaceFact, Protection, Taken, names, protection};

use super::covered_objects::{self, Covered};
use super::paged::Paged;
use super::{Answer, layout, parts};
use crate::server::Shared;
use crate::user::{Right, User};

/// How old a backup may be, in hours, unless somebody says.
const USUAL_HOURS: i64 = 26;
const MOST_HOURS: i64 = 24 * 365;
/// How many lines a page of each list has.
pub(super) const PAGE: usize = 50;

/// What is to be shown.
#[derive(Debug, Deserialize)]
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
    /// One of the lists of the page.
    fn list(&self, name: &'static str) -> Paged {
        let pages =
            [("without", self.without), ("workloads", self.workloads), ("claims", self.claims), ("with", self.with)];
        let others = parts::entry("hours", &self.hours.to_string()) + &parts::entry("search", &self.search);
        Paged::among(name, &pages, &others)
    }
}

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    for right in [Right::to("list", "backups"), Right::to("list", "schedules"), Right::in_cluster("list", "namespaces")]
    {
        user.must(right).await?;
    }
    let hours = wanted.hours.clamp(1, MOST_HOURS);
    let api: Api<Namespace> = Api::all(user.cluster().client().clone());
    let listed = list_metadata_kept(&api, &ListParams::default(), NamespaceFact::from).await;
    let mut namespaces = user.checked("list namespaces", listed)?;
    let search = wanted.search.trim().to_lowercase();
    namespaces.retain(|namespace| namespace.name.contains(&search));
    let (backups, schedules) = (shared.index.backups.rows().await?, shared.index.schedules.rows().await?);
    let existing = names(&namespaces);
    let covers: Vec<Cover<'_>> =
        schedules.iter().filter_map(|row| Cover::of(&row.name, &row.whole, &existing)).collect();
    let found = protection(&namespaces, backups.iter().filter_map(|row| row.taken()), &covers);
    let (now, longest) = (Timestamp::now(), SignedDuration::from_hours(hours));
    let by_name: BTreeMap<&str, &Protection<'_>> = found.iter().map(|found| (found.namespace, found)).collect();
    let covered = Covered { by_name, now, longest };
    let (of_workloads, of_claims) = (wanted.list("workloads"), wanted.list("claims"));
    let (workloads, claims) = tokio::join!(
        covered_objects::workloads(&user, &covered, &of_workloads),
        covered_objects::claims(&shared, &user, &covered, &of_claims)
    );
    let (gaps, safe): (Vec<_>, Vec<_>) = found.iter().partition(|found| found.gap(now, longest).is_some());
    let body = html! {
        h1 { "Coverage" }
        form.search method="get" role="search" {
            label { "A good backup within the last " input type="number" name="hours" min="1" max=(MOST_HOURS) value=(hours); " hours" }
            label { "Namespaces with " input type="search" name="search" value=(wanted.search); }
            button { "Show" }
        }
        p { "A namespace is safe when a backup of all of it was Completed within that time." }
        h2 { (gaps.len()) " namespaces without" }
        (table(&gaps, (now, longest), &wanted.list("without")))
        h2 { "Workloads" }
        (workloads)
        h2 { "Claims" }
        (claims)
        h2 { (safe.len()) " namespaces with" }
        (table(&safe, (now, longest), &wanted.list("with")))
    };
    Ok(layout::page(&user, "/coverage", "Coverage", &body))
}

fn table(rows: &[&Protection<'_>], (now, longest): (Timestamp, SignedDuration), paged: &Paged) -> Markup {
    let shown = paged.part(rows, PAGE);
    html! {
        @if !shown.is_empty() {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Namespace" } th { "Last good backup" } th { "Why" } th { "Schedules that take it" } } }
                tbody { @for row in shown { (table_row(row, now, longest)) } }
            } }
        }
        @else if !rows.is_empty() { p.none { "There are not so many." } }
        (paged.pager(rows.len(), PAGE))
    }
}

fn table_row(row: &Protection<'_>, now: Timestamp, longest: SignedDuration) -> Markup {
    let gap = row.gap(now, longest);
    html! {
        tr {
            td { (row.namespace) }
            td { @match &row.last_good {
                Some(good) => { (link(good)) ", " (parts::moment(Some(good.at), now)) },
                None => { span.none { "–" } },
            } }
            td { (why(gap, row, now)) }
            td {
                @if row.schedules.is_empty() { span.none { "none" } } @else { (row.schedules.join(", ")) }
                @if row.in_part { " (only some of its objects)" }
            }
        }
    }
}

fn link(taken: &Taken<'_>) -> Markup {
    html! { a href=(format!("/backups/{}", taken.backup)) { (taken.backup) } }
}

fn why(gap: Option<Gap<'_>>, row: &Protection<'_>, now: Timestamp) -> Markup {
    html! {
        @match &gap {
            None => { span.good { "safe" } },
            Some(Gap::LeftOut) => { span.doubtful { "its label leaves it out of backups" } },
            Some(Gap::NoBackup) => { span.bad { "no backup takes it" } @if row.schedules.is_empty() { ", and no schedule will" } },
            Some(Gap::TooOld) => { span.bad { "its last good backup is too old" } },
            Some(Gap::Failing(taken)) => { (link(taken)) " ended " (parts::phase(taken.phase)) " " (parts::moment(Some(taken.at), now)) },
            Some(Gap::OnlyParts(taken)) => { (link(taken)) " takes only some of its objects: by labels or types" },
        }
    }
}

#[cfg(test)]
mod tests {
    use velero_report::Scope;

    use super::*;

    #[test]
    fn thousands_of_namespaces_are_shown_a_small_page_at_a_time() {
        let names: Vec<NamespaceFact> = (0..5000)
            .map(|number| NamespaceFact { name: format!("team-{number}"), is_left_out: number == 0 })
            .collect();
        let scope = Scope::default();
        let taken =
            Taken { backup: "b", phase: "PartiallyFailed", at: Timestamp::UNIX_EPOCH, is_good: false, scope: &scope };
        let found = protection(&names, [taken], &[]);
        let rows: Vec<&Protection<'_>> = found.iter().collect();
        let page = |wanted: &Wanted| {
            let moment = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(1));
            table(&rows, moment, &wanted.list("without")).into_string()
        };
        let first = page(&Wanted { search: "team&".to_owned(), claims: 3, ..Wanted::default() });
        assert!(first.len() < 25 << 10, "{} bytes", first.len());
        assert!(first.contains("?without=1&amp;hours=26&amp;search=team%26&amp;claims=3"), "{first}");
        assert!(first.contains("its label leaves it out") && first.contains("PartiallyFailed"), "{first}");
        let last = page(&Wanted { without: 99, ..Wanted::default() });
        assert_eq!((last.matches("<tr>").count(), last.contains("rel=\"next\"")), (PAGE + 1, false), "with its head");
        assert!(page(&Wanted { without: usize::MAX, ..Wanted::default() }).contains("There are not so many"));
    }
}
