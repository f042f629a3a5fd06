//! The objects of a backup or restore, with a search, and one of them as it was.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use velero_api::v1::{Backup, DownloadTargetKind, Restore};

use super::{Answer, layout, parts};
use crate::command;
use crate::files::{Listing, OBJECTS, ObjectPath, Search, Wanted};
use crate::problem::Problem;
use crate::server::Shared;
use crate::text::address_part;
use crate::user::{Right, User};

/// Which object is wanted: by kind and name as the list has them, or by type, namespace and name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct One {
    kind: String,
    resource: String,
    namespace: String,
    name: String,
}

impl One {
    fn path(&self) -> Result<ObjectPath, Problem> {
        let path = match self.resource.as_str() {
            "" => ObjectPath::parse(&self.kind, &self.name),
            resource => ObjectPath::of(resource, &self.namespace, &self.name),
        };
        path.ok_or_else(|| Problem::Bad(format!("{:?} {:?} names no object", self.kind, self.name)))
    }
}

/// The address of an object of a backup, by its type.
pub(crate) fn address(backup: &str, resource: &str, namespace: &str, name: &str) -> String {
    let [resource, namespace, name] = [resource, namespace, name].map(address_part);
    format!("/backups/{backup}/object?resource={resource}&namespace={namespace}&name={name}")
}

pub(crate) async fn of_backup(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    user.get::<Backup>(&name).await?;
    let listing = read(&shared, &user, DownloadTargetKind::BackupResourceList, &name, &wanted).await?;
    let body = html! {
        h1 { "Objects of backup " a href=(format!("/backups/{name}")) { (name) } }
        (list(&listing, &wanted, Some(&name)))
    };
    Ok(layout::page(&user, "/backups", &format!("Objects of backup {name}"), &body))
}

pub(crate) async fn of_restore(
    State(shared): State<Shared>,
    user: User,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    user.get::<Restore>(&name).await?;
    let listing = read(&shared, &user, DownloadTargetKind::RestoreResourceList, &name, &wanted).await?;
    let body = html! {
        h1 { "Objects of restore " a href=(format!("/restores/{name}")) { (name) } }
        (list(&listing, &wanted, None))
    };
    Ok(layout::page(&user, "/restores", &format!("Objects of restore {name}"), &body))
}

async fn read(
    shared: &Shared,
    user: &User,
    kind: DownloadTargetKind,
    name: &str,
    wanted: &Wanted,
) -> Result<Listing, Problem> {
    user.must(Right::FILES).await?;
    let _place = shared.file_places.acquire().await;
    Ok(Listing::read(&*shared.means.files, kind, name, Search::Part(wanted.search.clone()), wanted.page).await?)
}

fn list(listing: &Listing, wanted: &Wanted, backup: Option<&str>) -> Markup {
    let shown = wanted.page.saturating_mul(OBJECTS).saturating_add(listing.found.len());
    html! {
        (parts::search("Kind, namespace or name", &wanted.search))
        p { (listing.matched) " of " (listing.total) " objects" }
        div.scroll tabindex="0" { table {
            thead { tr { th { "Kind" } th { "Name" } } }
            tbody {
                @for object in &listing.found {
                    tr {
                        td { (object.kind) }
                        td {
                            @if let Some(backup) = backup {
                                a href=(format!("/backups/{backup}/object?kind={}&name={}", address_part(&object.kind), address_part(&object.name))) { (object.name) }
                            } @else { (object.name) }
                        }
                    }
                }
                @if listing.found.is_empty() { tr { td colspan="2" { "No object is like that." } } }
            }
        } }
        (parts::pager(wanted.page, shown < listing.matched, &parts::entry("search", &wanted.search)))
    }
}

/// One object of a backup, as YAML.
pub(crate) async fn one(
    State(shared): State<Shared>,
    user: User,
    Path(backup): Path<String>,
    Query(one): Query<One>,
) -> Answer {
    user.get::<Backup>(&backup).await?;
    user.must(Right::FILES).await?;
    let path = one.path()?;
    let object = {
        let _place = shared.file_places.acquire().await;
        path.read(&*shared.means.files, &backup).await?
    };
    let body = html! {
        h1 { (one.kind) (one.resource) " " @if !one.namespace.is_empty() { (one.namespace) "/" } (one.name) }
        p { "as it was in backup " a href=(format!("/backups/{backup}")) { (backup) } }
        pre tabindex="0" { (command::yaml(&object)) }
    };
    Ok(layout::page(&user, "/backups", &one.name, &body))
}
