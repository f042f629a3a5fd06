//! Back up now: a form, what it would take, and the same as YAML and as a command.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use velero_api::v1::{Backup, BackupSpec};
use velero_api::{GoDuration, metadata};
use velero_rules::includes_excludes::validate_namespace_includes_excludes;

use super::{LABELS, matched, selector};
use crate::command;
use crate::form::Fields;
use crate::pages::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::text::{entries, is_object_name};
use crate::user::{Right, User};

pub(crate) async fn show(State(_): State<Shared>, user: User) -> Answer {
    user.must(Right::to("create", "backups")).await?;
    let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    let fields = [("name", format!("backup-{now}"))].map(|(name, value)| (name.to_owned(), value));
    Ok(page(&user, &fields.into_iter().collect(), &html! {}))
}

/// Shows what the form would take, or makes the backup.
pub(crate) async fn submit(State(_): State<Shared>, user: User, form: Fields) -> Result<Response, Problem> {
    let backup = match read(&form, user.namespace()) {
        Ok(backup) => backup,
        Err(problem) => return Ok(page(&user, &form, &Problem::Bad(problem).note()).into_response()),
    };
    if form.get("do") != "create" {
        let preview = preview(&user, &backup).await;
        return Ok(page(&user, &form, &preview).into_response());
    }
    let made = user.create(&backup).await?;
    Ok(Redirect::to(&format!("/backups/{}", metadata::name(&made))).into_response())
}

/// The backup that a form describes; what is wrong with the form otherwise.
fn read(form: &Fields, namespace: &str) -> Result<Backup, String> {
    let name = form.get("name");
    if !is_object_name(name) {
        return Err(format!("a backup cannot be called {name:?}: small letters, digits, - and . are allowed"));
    }
    let spec = BackupSpec {
        included_namespaces: entries(form.get("included-namespaces")),
        excluded_namespaces: entries(form.get("excluded-namespaces")),
        included_resources: entries(form.get("included-resources")),
        excluded_resources: entries(form.get("excluded-resources")),
        label_selector: selector(form.get("selector"))?,
        storage_location: form.get("location").to_owned(),
        ttl: time_to_live(form.get("ttl"))?,
        snapshot_volumes: (form.get("volumes") == "none").then_some(false),
        default_volumes_to_fs_backup: (form.get("volumes") == "copied").then_some(true),
        ..BackupSpec::default()
    };
    let problems = validate_namespace_includes_excludes(&spec.included_namespaces, &spec.excluded_namespaces);
    match problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(Backup::new(namespace, name, spec)),
    }
}

fn time_to_live(text: &str) -> Result<GoDuration, String> {
    if text.is_empty() {
        return Ok(GoDuration::ZERO);
    }
    let parsed = text.parse::<GoDuration>();
    parsed.map_err(|error| format!("{text:?} is not how long a backup is kept, as in 720h: {error}"))
}

/// What a backup would take, and the same as YAML and as a command.
async fn preview(user: &User, backup: &Backup) -> Markup {
    let matched = matched::show(user, &backup.spec).await;
    html! {
        h2 { "What it would take" }
        (matched)
        h2 { "As YAML" } pre tabindex="0" { (command::yaml(backup)) }
        h2 { "As a command" } (parts::as_command(&command::of_backup(backup)))
    }
}

fn page(user: &User, form: &Fields, result: &Markup) -> axum::response::Html<String> {
    let field = |name: &str, label: &str, hint: &str| {
        html! { label { (label) input name=(name) value=(form.get(name)); small { (hint) } } }
    };
    let body = html! {
        h1 { "Back up now" }
        form.fields method="post" action="/new-backup" {
            (layout::form_token(user))
            label { "Name" input name="name" value=(form.get("name")) required; }
            (field("included-namespaces", "Namespaces", "separated by commas, * is any letters; nothing means all"))
            (field("excluded-namespaces", "but not these namespaces", ""))
            (field("included-resources", "Types", "as in deployments.apps; nothing means all"))
            (field("excluded-resources", "but not these types", ""))
            (field("selector", "Labels", LABELS))
            (field("location", "Location", "nothing means the default one"))
            (field("ttl", "Kept for", "as in 720h; nothing means what the server is set up with"))
            label { "Data of volumes"
                select name="volumes" {
                    @for (value, label) in [("", "as the server is set up"), ("copied", "copied through the file systems of pods"), ("none", "no snapshots")] {
                        option value=(value) selected[value == form.get("volumes")] { (label) }
                    }
                }
            }
            div.actions { button name="do" value="preview" { "Show what it would take" } button.main name="do" value="create" { "Back up" } }
        }
        (result)
    };
    layout::page(user, "/backups", "Back up now", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_becomes_a_backup() {
        let filled =
            form(&[("name", " b "), ("included-namespaces", "shop, pay"), ("ttl", "24h"), ("volumes", "copied")]);
        let backup = read(&filled, "velero").unwrap();
        assert_eq!(metadata::name(&backup), "b");
        assert_eq!(backup.spec.included_namespaces, ["shop", "pay"]);
        assert_eq!(backup.spec.ttl, GoDuration::from_hours(24));
        assert_eq!((backup.spec.default_volumes_to_fs_backup, backup.spec.snapshot_volumes), (Some(true), None));
    }

    #[test]
    fn a_form_that_makes_no_sense_says_why() {
        for (pairs, words) in [
            (vec![("name", "<b>")], "cannot be called"),
            (vec![("name", "b"), ("ttl", "soon")], "720h"),
            (vec![("name", "b"), ("selector", "=<b>")], "app=web"),
            (vec![("name", "b"), ("included-namespaces", "a"), ("excluded-namespaces", "a")], "a"),
        ] {
            let problem = read(&form(&pairs), "velero").unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
