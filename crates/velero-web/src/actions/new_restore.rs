//! The first step of a restore: what, and under which names. Then comes the dry run (`preview`).

use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use velero_api::v1::{Backup, ExistingResourcePolicy, Restore, RestoreSpec};
use velero_api::{dry_run, metadata};
use velero_rules::pairs;

use super::{LABELS, selector};
use crate::command;
use crate::form::Fields;
use crate::pages::{Answer, layout, parts};
use crate::problem::Problem;
use crate::server::Shared;
use crate::text::{entries, is_object_name};
use crate::user::{Right, User};

/// From which backup.
#[derive(Deserialize)]
pub(crate) struct From {
    backup: String,
}

pub(crate) async fn show(State(_): State<Shared>, user: User, Query(from): Query<From>) -> Answer {
    user.must(Right::to("create", "restores")).await?;
    user.get::<Backup>(&from.backup).await?;
    let now = Timestamp::now().strftime("%Y%m%d%H%M%S");
    let fields = [
        ("backup", from.backup.clone()),
        ("name", format!("{}-{now}", from.backup)),
        ("restore-volumes", "on".to_owned()),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    Ok(page(&user, &fields, &html! {}))
}

/// Asks the server what the restore would do.
pub(crate) async fn submit(State(_): State<Shared>, user: User, form: Fields) -> Result<Response, Problem> {
    let restore = match read(&form, user.namespace()) {
        Ok(restore) => restore,
        Err(problem) => return Ok(page(&user, &form, &Problem::Bad(problem).note()).into_response()),
    };
    if form.get("do") == "text" {
        let text = html! {
            h2 { "As YAML" } pre tabindex="0" { (command::yaml(&restore)) }
            h2 { "As a command" } (parts::as_command(&command::of_restore(&restore)))
        };
        return Ok(page(&user, &form, &text).into_response());
    }
    let question = dry_run::ask(&restore, &format!("dry-run-{}", uuid::Uuid::new_v4().simple()));
    let asked = user.create(&question).await?;
    Ok(Redirect::to(&format!("/previews/{}", metadata::name(&asked))).into_response())
}

/// The restore that a form describes; what is wrong with the form otherwise.
fn read(form: &Fields, namespace: &str) -> Result<Restore, String> {
    let (name, backup) = (form.get("name"), form.get("backup"));
    for (what, text) in [("restore", name), ("backup", backup)] {
        if !is_object_name(text) {
            return Err(format!("a {what} cannot be called {text:?}: small letters, digits, - and . are allowed"));
        }
    }
    let mappings = entries(form.get("mappings")).join(",");
    let mapping = if mappings.is_empty() { Ok(Default::default()) } else { pairs::parse(&mappings, ':') };
    let spec = RestoreSpec {
        backup_name: backup.to_owned(),
        included_namespaces: entries(form.get("included-namespaces")),
        excluded_namespaces: entries(form.get("excluded-namespaces")),
        included_resources: entries(form.get("included-resources")),
        excluded_resources: entries(form.get("excluded-resources")),
        label_selector: selector(form.get("selector"))?,
        namespace_mapping: mapping.map_err(|error| format!("other names are written as old:new,old2:new2: {error}"))?,
        restore_pvs: (!form.is_ticked("restore-volumes")).then_some(false),
        existing_resource_policy: form.is_ticked("update").then_some(ExistingResourcePolicy::Update),
        ..RestoreSpec::default()
    };
    Ok(Restore::new(namespace, name, spec))
}

fn page(user: &User, form: &Fields, result: &Markup) -> Html<String> {
    let field = |name: &str, label: &str, hint: &str| {
        html! { label { (label) input name=(name) value=(form.get(name)); small { (hint) } } }
    };
    let body = html! {
        h1 { "Restore from " (form.get("backup")) }
        p { "Nothing is restored yet: first the server says what it would do." }
        form.fields method="post" action="/new-restore" {
            (layout::form_token(user))
            input type="hidden" name="backup" value=(form.get("backup"));
            label { "Name of the restore" input name="name" value=(form.get("name")) required; }
            (field("included-namespaces", "Namespaces", "separated by commas, * is any letters; nothing means all"))
            (field("excluded-namespaces", "but not these namespaces", ""))
            (field("included-resources", "Types", "as in deployments.apps; nothing means all"))
            (field("excluded-resources", "but not these types", ""))
            (field("selector", "Labels", LABELS))
            (field("mappings", "Other names for namespaces", "as in shop:shop-2"))
            label.box { input type="checkbox" name="restore-volumes" checked[form.is_ticked("restore-volumes")]; "Restore volumes" }
            label.box { input type="checkbox" name="update" checked[form.is_ticked("update")]; "Change objects that exist and differ" }
            div.actions {
                button.main name="do" value="look" { "See what it would do" }
                button name="do" value="text" { "As YAML and as a command" }
            }
        }
        (result)
    };
    layout::page(user, "/restores", "Restore", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_becomes_a_restore() {
        let filled =
            [("name", "r"), ("backup", "b"), ("mappings", "shop:shop-2"), ("update", "on"), ("restore-volumes", "on")];
        let restore = read(&form(&filled), "velero").unwrap();
        assert_eq!(restore.spec.namespace_mapping["shop"], "shop-2");
        assert_eq!(restore.spec.restore_pvs, None, "as the server is set up");
        assert_eq!(restore.spec.existing_resource_policy, Some(ExistingResourcePolicy::Update));
        assert_eq!(read(&form(&filled[..2]), "velero").unwrap().spec.restore_pvs, Some(false));
    }

    #[test]
    fn a_form_that_makes_no_sense_says_why() {
        for (pairs, words) in [
            (vec![("name", "R"), ("backup", "b")], "a restore cannot be called"),
            (vec![("name", "r"), ("backup", "../x")], "a backup cannot be called"),
            (vec![("name", "r"), ("backup", "b"), ("mappings", "shop")], "old:new"),
            (vec![("name", "r"), ("backup", "b"), ("selector", "=<b>")], "app=web"),
        ] {
            let problem = read(&form(&pairs), "velero").unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
