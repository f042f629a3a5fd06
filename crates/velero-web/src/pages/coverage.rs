//! What has no recent good backup, and why.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{Api, ListParams};
use maud::{Markup, html};
use serde::Deserialize;
use velero_cluster::list_all_metadata;

use super::{Answer, layout, parts};
use crate::coverage::{Covered, Gap, coverage};
use crate::files;
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How old a backup may be, in hours, unless somebody says.
const USUAL_HOURS: i64 = 26;
const MOST_HOURS: i64 = 24 * 365;
/// Of how many backups is asked what they saved of volumes.
const MOST_LOOKS: usize = 8;

/// How old a backup may be.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    hours: i64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { hours: USUAL_HOURS }
    }
}

/// What a backup saved, by namespace and name of the claim: how, or why not.
type Saved = Result<BTreeMap<(String, String), Result<String, String>>, String>;

/// What became of the data of claims, by namespace.
type Claims = BTreeMap<String, Vec<(String, Result<String, String>)>>;

pub(crate) async fn show(State(shared): State<Shared>, user: User, Query(wanted): Query<Wanted>) -> Answer {
    for right in [Right::to("list", "backups"), Right::to("list", "schedules"), Right::in_cluster("list", "namespaces")]
    {
        user.must(right).await?;
    }
    let hours = wanted.hours.clamp(1, MOST_HOURS);
    let api: Api<Namespace> = Api::all(user.cluster().client().clone());
    let found = user.checked("list namespaces", list_all_metadata(&api, &ListParams::default()).await)?;
    let namespaces: Vec<String> = found.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect();
    let (backups, schedules) = (shared.index.backups.rows().await?, shared.index.schedules.rows().await?);
    let now = Timestamp::now();
    let covered = coverage(&namespaces, &backups, &schedules, now, SignedDuration::from_hours(hours));
    let claims = claims(&shared, &user, &covered).await;
    let (gaps, safe): (Vec<_>, Vec<_>) = covered.into_iter().partition(|covered| covered.gap.is_some());
    let body = html! {
        h1 { "Coverage" }
        form.search method="get" {
            label { "A good backup within the last " input type="number" name="hours" min="1" max=(MOST_HOURS) value=(hours); " hours" }
            button { "Show" }
        }
        p { "A namespace is safe when a backup of all of it was Completed within that time." }
        h2 { (gaps.len()) " namespaces without" }
        (table(&gaps, now))
        h2 { "Claims" }
        @match &claims { Ok(claims) => (claim_table(claims)), Err(problem) => (problem.note()) }
        h2 { (safe.len()) " namespaces with" }
        (table(&safe, now))
    };
    Ok(layout::page(&user, "/coverage", "Coverage", &body))
}

fn table(rows: &[Covered], now: Timestamp) -> Markup {
    if rows.is_empty() {
        return html! {};
    }
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Namespace" } th { "Last good backup" } th { "Why" } th { "Schedules that take it" } } }
            tbody {
                @for row in rows {
                    tr {
                        td { (row.namespace) }
                        td { @match &row.last_good {
                            Some(good) => { a href=(format!("/backups/{}", good.backup)) { (good.backup) } ", " (parts::moment(Some(good.at), now)) },
                            None => { span.none { "–" } },
                        } }
                        td { (why(row, now)) }
                        td { (parts::names(&row.schedules, "none")) }
                    }
                }
            }
        } }
    }
}

fn why(row: &Covered, now: Timestamp) -> Markup {
    let link = |backup: &str| html! { a href=(format!("/backups/{backup}")) { (backup) } };
    html! {
        @match &row.gap {
            None => { span.good { "safe" } },
            Some(Gap::NoBackup) => { span.bad { "no backup takes it" } @if row.schedules.is_empty() { ", and no schedule will" } },
            Some(Gap::TooOld) => { span.bad { "its last good backup is too old" } },
            Some(Gap::Failing(taken)) => { (link(&taken.backup)) " ended " (parts::phase(&taken.phase)) " " (parts::moment(Some(taken.at), now)) },
            Some(Gap::OnlyParts(taken)) => { (link(&taken.backup)) " takes only some of its objects: by labels or types" },
        }
    }
}

/// What the last good backups saved of the claims that are there now.
async fn claims(shared: &Shared, user: &User, covered: &[Covered]) -> Result<Claims, Problem> {
    user.must(Right::in_cluster("list", "persistentvolumeclaims")).await?;
    user.must(Right::FILES).await?;
    let api: Api<PersistentVolumeClaim> = Api::all(user.cluster().client().clone());
    let found = user.checked("list persistentvolumeclaims", list_all_metadata(&api, &ListParams::default()).await)?;
    let last: BTreeMap<&str, &str> = covered
        .iter()
        .filter_map(|covered| Some((covered.namespace.as_str(), covered.last_good.as_ref()?.backup.as_str())))
        .collect();
    let mut saved: BTreeMap<&str, Saved> = BTreeMap::new();
    let mut claims = Claims::new();
    for claim in found.items {
        let (namespace, name) = (claim.metadata.namespace.unwrap_or_default(), claim.metadata.name.unwrap_or_default());
        let state = match last.get(namespace.as_str()) {
            None => Err("no good backup takes its namespace".to_owned()),
            Some(backup) => {
                if !saved.contains_key(backup) && saved.len() >= MOST_LOOKS {
                    Err(format!("not looked at: the volumes of {MOST_LOOKS} backups were"))
                } else {
                    if !saved.contains_key(backup) {
                        saved.insert(backup, volumes_of(shared, backup).await);
                    }
                    state_of(saved.get(backup), (&namespace, &name), backup)
                }
            }
        };
        claims.entry(namespace).or_default().push((name, state));
    }
    Ok(claims)
}

/// What a backup saved, by claim.
async fn volumes_of(shared: &Shared, backup: &str) -> Saved {
    let Ok(_place) = shared.file_places.acquire().await else { return Err("the server ends".to_owned()) };
    let volumes = files::volumes(&*shared.means.files, backup).await.map_err(|problem| problem.to_string())?;
    let told = volumes.into_iter().map(|volume| {
        let method = volume.backup_method.as_ref().map_or("saved", |method| method.as_str()).to_owned();
        let state = match volume.result.as_ref().map(|result| result.as_str()) {
            _ if volume.skipped => Err(format!("left out: {}", volume.skipped_reason)),
            Some("succeeded") => Ok(method),
            Some(other) => Err(format!("{method} {other}")),
            None => Err("what became of it is not told".to_owned()),
        };
        ((volume.pvc_namespace, volume.pvc_name), state)
    });
    Ok(told.collect())
}

fn state_of(saved: Option<&Saved>, (namespace, name): (&str, &str), backup: &str) -> Result<String, String> {
    match saved {
        Some(Ok(volumes)) => match volumes.get(&(namespace.to_owned(), name.to_owned())) {
            Some(Ok(method)) => Ok(format!("{method} in {backup}")),
            Some(Err(problem)) => Err(format!("{backup}: {problem}")),
            None => Err(format!("{backup} saved nothing of it")),
        },
        Some(Err(problem)) => Err(format!("it is not known what {backup} saved: {problem}")),
        None => Err("not looked at".to_owned()),
    }
}

fn claim_table(claims: &Claims) -> Markup {
    let unsafe_claims = claims.values().flatten().filter(|(_, state)| state.is_err()).count();
    let all = claims.values().map(Vec::len).sum::<usize>();
    html! {
        p { (unsafe_claims) " of " (all) " claims have no data in the last good backup of their namespace." }
        @if unsafe_claims > 0 {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Claim" } th { "Why" } } }
                tbody {
                    @for (namespace, of_namespace) in claims {
                        @for (name, state) in of_namespace {
                            @if let Err(problem) = state { tr { td { (namespace) "/" (name) } td { (problem) } } }
                        }
                    }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_safe_only_when_its_data_is_known_to_be_saved() {
        let key = ("shop".to_owned(), "data".to_owned());
        let told = |state| Ok([(key.clone(), state)].into());
        let state = |saved: &Saved| state_of(Some(saved), ("shop", "data"), "b");
        assert_eq!(state(&told(Ok("CSISnapshot".to_owned()))), Ok("CSISnapshot in b".to_owned()));
        assert!(state(&told(Err("left out: by policy".to_owned()))).unwrap_err().contains("by policy"));
        assert!(state(&Ok(BTreeMap::new())).unwrap_err().contains("saved nothing"));
        assert!(state(&Err("away".to_owned())).unwrap_err().contains("not known"));
        assert!(state_of(None, ("shop", "data"), "b").is_err());
    }
}
