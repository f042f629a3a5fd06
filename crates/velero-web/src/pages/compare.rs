//! What differs between two backups, or between a backup and the cluster.

use std::time::Instant;

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use velero_api::v1::{Backup, BackupSpec};

use super::{Answer, layout, object_difference, objects, parts};
use crate::cluster_side::ClusterSide;
use crate::command;
use crate::comparison::{Comparison, Counts, Difference, Object, PAGE, Side};
use crate::files::{READING, take_contents};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many other backups are offered.
const MOST_OFFERED: usize = 50;

/// What is to be compared and shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// The other backup; empty where it is still to be chosen.
    with: String,
    /// A part of `type/namespace/name`.
    search: String,
    show: Difference,
    page: usize,
}

/// What came of a comparison.
struct Compared {
    comparison: Comparison,
    /// What was left out, and why.
    notes: Vec<String>,
}

/// The two sides, as they are called and reached.
struct Sides<'a> {
    one: &'a str,
    /// Nothing means the cluster.
    other: Option<&'a str>,
}

impl Sides<'_> {
    fn other_words(&self) -> String {
        self.other.map_or_else(|| "the cluster".to_owned(), |other| format!("backup {other}"))
    }
}

/// Compares two backups.
pub(crate) async fn with_backup(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    show(&shared, &user, &name, &wanted, false).await
}

/// Compares a backup with the cluster, with the rights of who asks.
pub(crate) async fn with_cluster(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    show(&shared, &user, &name, &wanted, true).await
}

async fn show(shared: &Shared, user: &User, name: &str, wanted: &Wanted, with_cluster: bool) -> Answer {
    let backup: Backup = user.get(name).await?;
    user.must(Right::FILES).await?;
    let forms = forms(user, &backup, name, wanted, &offered(shared, user, name).await?);
    let (other, compared) = match wanted.with.as_str() {
        _ if with_cluster => (None, compare_cluster(shared, user, &backup.spec, name, wanted).await),
        "" => return Ok(page(user, name, "another one", &forms, &html! {})),
        other => {
            user.get::<Backup>(other).await?;
            (Some(other), compare_backups(shared, name, wanted).await)
        }
    };
    let sides = Sides { one: name, other };
    Ok(page(user, name, &sides.other_words(), &forms, &result(&sides, compared, wanted)))
}

async fn compare_backups(shared: &Shared, name: &str, wanted: &Wanted) -> Result<Compared, Problem> {
    let _turn = shared.comparisons.acquire().await;
    let _place = shared.file_places.acquire().await;
    let (files, deadline) = (&*shared.means.files, Instant::now() + READING);
    let comparison = Comparison::new(&wanted.search);
    let comparison = take_contents(files, name, comparison, Side::One, deadline).await?;
    let comparison = take_contents(files, &wanted.with, comparison, Side::Other, deadline).await?;
    Ok(Compared { comparison, notes: Vec::new() })
}

async fn compare_cluster(
    shared: &Shared,
    user: &User,
    spec: &BackupSpec,
    name: &str,
    wanted: &Wanted,
) -> Result<Compared, Problem> {
    let _turn = shared.comparisons.acquire().await;
    let deadline = Instant::now() + READING;
    let comparison = {
        let _place = shared.file_places.acquire().await;
        take_contents(&*shared.means.files, name, Comparison::new(&wanted.search), Side::One, deadline).await?
    };
    let (comparison, notes) = ClusterSide::new(user, spec, comparison, deadline).take().await?;
    Ok(Compared { comparison, notes })
}

/// The names of other backups, newest first, for those who may list them: of the same schedule before all others.
async fn offered(shared: &Shared, user: &User, name: &str) -> Result<Vec<String>, Problem> {
    if !user.may(Right::to("list", "backups")).await? {
        return Ok(Vec::new());
    }
    let mut rows = shared.index.backups.rows().await?;
    let own = rows.iter().find(|row| *row.name == *name).map(|row| row.schedule.clone()).unwrap_or_default();
    rows.retain(|row| row.has_files && *row.name != *name);
    let is_of_another = |schedule: &str| own.is_empty() || *schedule != *own;
    rows.sort_by_key(|row| (is_of_another(&row.schedule), std::cmp::Reverse(row.run.created)));
    Ok(rows.iter().take(MOST_OFFERED).map(|row| row.name.to_string()).collect())
}

fn page(user: &User, name: &str, other: &str, forms: &Markup, result: &Markup) -> axum::response::Html<String> {
    let body = html! {
        h1 { "Backup " a href=(format!("/backups/{name}")) { (name) } " beside " (other) }
        (forms)
        (result)
    };
    layout::page(user, "/backups", &format!("{name} beside {other}"), &body)
}

fn forms(user: &User, backup: &Backup, name: &str, wanted: &Wanted, offered: &[String]) -> Markup {
    let update = "--existing-resource-policy=update";
    let command = ["velero", "restore", "create", &format!("--from-backup={name}"), update, "--dry-run"];
    let command = command::plain(&command, user.namespace());
    let search =
        html! { label { "Type, namespace or name " input type="search" name="search" value=(wanted.search); } };
    html! {
        form.search method="get" action=(format!("/backups/{name}/compare")) {
            label { "Another backup " input name="with" list="backups" value=(wanted.with) required; }
            datalist #backups { @for other in offered { option value=(other) {} } }
            (search)
            button { "Compare" }
        }
        form.search method="get" action=(format!("/backups/{name}/compare-cluster")) {
            (search)
            button { "Compare with the cluster" }
        }
        @if !backup.status.phase().is_restorable() {
            p.none { "The backup is " (backup.status.phase().as_str()) ": it may not hold all it was to hold." }
        }
        p.none {
            "What the API server fills in makes no difference: UID, versions, times, owners, managed fields and the status. "
            "As a command, what a restore would change: " code { (command.text) }
        }
    }
}

fn result(sides: &Sides<'_>, compared: Result<Compared, Problem>, wanted: &Wanted) -> Markup {
    let Compared { comparison, notes } = match compared {
        Ok(compared) => compared,
        Err(problem) => return problem.note(),
    };
    let counts = comparison.counts();
    let total = counts.of(wanted.show);
    let rows = comparison.page(wanted.show, wanted.page);
    let shown = wanted.page.saturating_mul(PAGE).saturating_add(rows.len());
    html! {
        (figures(sides, &counts, wanted))
        @if !notes.is_empty() {
            div.note role="note" {
                p { strong { "Not everything was compared: " } (notes.len()) " types or namespaces were not." }
                ul { @for note in &notes { li { (note) } } }
            }
        }
        @if sides.other.is_none() {
            p.none { "Of the cluster count objects of the types and in the namespaces that the backup has something of." }
        }
        @if total == 0 { p { "Nothing differs in that way." } }
        @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "What" } th { "Type" } th { "Object" } } }
                tbody { @for (difference, object) in &rows { (row(sides, *difference, *object)) } }
            } }
        }
        (parts::pager(wanted.page, shown < total && !rows.is_empty(), &rest(wanted, wanted.show)))
    }
}

/// How many objects are where, each a way to see those alone.
fn figures(sides: &Sides<'_>, counts: &Counts, wanted: &Wanted) -> Markup {
    let link = |show: Difference| {
        let count = counts.of(show);
        html! { a href=(format!("?page=0{}", rest(wanted, show))) { (count) } }
    };
    parts::facts(&[
        (&format!("Only in backup {}", sides.one), link(Difference::OnlyOne)),
        (&format!("Only in {}", sides.other_words()), link(Difference::OnlyOther)),
        ("In both, and different", link(Difference::Both)),
        ("All that differs", link(Difference::Any)),
        ("The same in both", html! { (counts.equal) }),
    ])
}

fn rest(wanted: &Wanted, show: Difference) -> String {
    let show = match show {
        Difference::Any => "any",
        Difference::OnlyOne => "only-one",
        Difference::OnlyOther => "only-other",
        Difference::Both => "both",
    };
    [("with", wanted.with.as_str()), ("search", &wanted.search), ("show", show)]
        .iter()
        .map(|(name, value)| parts::entry(name, value))
        .collect()
}

fn row(sides: &Sides<'_>, difference: Difference, object: Object<'_>) -> Markup {
    let Object { resource, namespace, name } = object;
    let in_backup = |backup: &str| Some(objects::address(backup, resource, namespace, name));
    let (words, address) = match difference {
        Difference::OnlyOne => (format!("only in {}", sides.one), in_backup(sides.one)),
        Difference::OnlyOther => (format!("only in {}", sides.other_words()), sides.other.and_then(in_backup)),
        Difference::Both | Difference::Any => {
            ("different".to_owned(), Some(object_difference::address(sides.one, sides.other, object)))
        }
    };
    html! {
        tr {
            td { (words) }
            td { (resource) }
            td {
                @let label = html! { @if !namespace.is_empty() { (namespace) "/" } (name) };
                @match address { Some(address) => { a href=(address) { (label) } }, None => { (label) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(names: impl Iterator<Item = String>) -> Compared {
        let mut comparison = Comparison::new("");
        for name in names {
            let object = Object { resource: "configmaps", namespace: "shop", name: &name };
            comparison.add(Side::One, object, json!({"data": name})).unwrap();
        }
        Compared { comparison, notes: vec!["<i>secrets</i>".to_owned()] }
    }

    #[test]
    fn differences_are_shown_a_page_at_a_time_and_markup_is_text() {
        let sides = Sides { one: "a", other: Some("b") };
        let names = || (0..1000).map(|number| format!("<b>{number:04}"));
        let wanted = Wanted { with: "b".to_owned(), page: 1, search: "\"&<".to_owned(), ..Wanted::default() };
        let text = result(&sides, Ok(compared(names())), &wanted).into_string();
        assert!(!text.contains("<b>") && !text.contains("<i>") && text.contains("&lt;b&gt;0100"), "{text}");
        assert_eq!(text.matches("only in a</td>").count(), PAGE);
        assert!(text.contains("?page=2&amp;with=b&amp;search=%22%26%3C&amp;show=any"), "{text}");
        assert!(text.len() < 100 << 10, "{} bytes", text.len());
        let last = Wanted { page: 9, ..wanted.clone() };
        assert!(!result(&sides, Ok(compared(names())), &last).into_string().contains("rel=\"next\""));
        let far = Wanted { page: usize::MAX, ..wanted };
        assert!(!result(&sides, Ok(compared(names())), &far).into_string().contains("rel=\"next\""));
    }

    #[test]
    fn what_is_only_in_the_cluster_leads_to_no_backup() {
        let object = Object { resource: "pods", namespace: "shop", name: "web" };
        let with = |other, difference| row(&Sides { one: "a", other }, difference, object).into_string();
        assert!(!with(None, Difference::OnlyOther).contains("href"));
        assert!(with(Some("b"), Difference::OnlyOther).contains("/backups/b/object?resource=pods&amp;namespace=shop"));
        assert!(with(None, Difference::Both).contains("/backups/a/compare-object?"));
    }
}
