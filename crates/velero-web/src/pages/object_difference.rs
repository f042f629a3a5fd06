//! How one object differs between two backups, or between a backup and the cluster: its YAML, line by line.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_rules::difference;

use super::{Answer, layout, objects, parts};
use crate::cluster_side::read_object;
use crate::command;
use crate::comparison::Object;
use crate::files::{FileProblem, ObjectPath};
use crate::line_difference::{self, Line};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// How many lines are shown.
const MOST_LINES: usize = 1000;

/// Which object is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    resource: String,
    namespace: String,
    name: String,
    /// The other backup; empty means the cluster.
    with: String,
}

impl Wanted {
    fn object(&self) -> Object<'_> {
        Object { resource: &self.resource, namespace: &self.namespace, name: &self.name }
    }
}

/// The address of the difference of an object; without another backup it is compared with the cluster.
pub(crate) fn address(backup: &str, other: Option<&str>, object: Object<'_>) -> String {
    let Object { resource, namespace, name } = object;
    let entries = [("namespace", namespace), ("name", name), ("with", other.unwrap_or_default())];
    let rest: String = entries.iter().map(|(name, value)| parts::entry(name, value)).collect();
    format!("/backups/{backup}/compare-object?resource={}{rest}", crate::text::address_part(resource))
}

pub(crate) async fn show(
    State(shared): State<Shared>,
    user: User,
    Path(backup): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    user.get::<Backup>(&backup).await?;
    user.must(Right::FILES).await?;
    let path = ObjectPath::of(&wanted.resource, &wanted.namespace, &wanted.name);
    let path = path.ok_or_else(|| Problem::Bad(format!("{:?} {:?} names no object", wanted.resource, wanted.name)))?;
    let one = read(&shared, path.clone(), &backup).await?;
    let other = match wanted.with.as_str() {
        "" => {
            let (api_version, kind) = one.as_ref().map(type_of).unwrap_or_default();
            read_object(&user, &api_version, &kind, wanted.object()).await?
        }
        other => {
            user.get::<Backup>(other).await?;
            read(&shared, path, other).await?
        }
    };
    let other_words = if wanted.with.is_empty() { "the cluster".to_owned() } else { format!("backup {}", wanted.with) };
    let body = html! {
        h1 { (wanted.resource) " " @if !wanted.namespace.is_empty() { (wanted.namespace) "/" } (wanted.name) }
        p {
            "Lines with − are those of backup "
            a href=(objects::address(&backup, &wanted.resource, &wanted.namespace, &wanted.name)) { (backup) }
            ", lines with + those of " (other_words) "."
        }
        (told((one, &format!("backup {backup}")), (other, &other_words)))
    };
    Ok(layout::page(&user, "/backups", &wanted.name, &body))
}

/// The object in a backup; nothing when it is not there.
async fn read(shared: &Shared, path: ObjectPath, backup: &str) -> Result<Option<Value>, Problem> {
    let _place = shared.file_places.acquire().await;
    match path.read(&*shared.means.files, backup).await {
        Ok(object) => Ok(Some(object)),
        Err(FileProblem::None(_)) => Ok(None),
        Err(problem) => Err(problem.into()),
    }
}

fn type_of(object: &Value) -> (String, String) {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

fn told((one, one_words): (Option<Value>, &str), (other, other_words): (Option<Value>, &str)) -> Markup {
    let away = |words: &str| html! { div.note role="note" { p { "It is not in " (words) ", or not any more." } } };
    match (one, other) {
        (None, None) => html! { (away(one_words)) (away(other_words)) },
        (None, Some(_)) => away(one_words),
        (Some(_), None) => away(other_words),
        (Some(mut one), Some(mut other)) => {
            difference::reduce(&mut one);
            difference::reduce(&mut other);
            let is_secret = type_of(&one) == ("v1".to_owned(), "Secret".to_owned());
            difference::hide_contents(&mut one, &mut other);
            html! {
                @if is_secret { p.none { "What a Secret holds is not shown, only which of its values differ." } }
                (lines(&command::yaml(&one), &command::yaml(&other)))
            }
        }
    }
}

fn lines(one: &str, other: &str) -> Markup {
    let lines = line_difference::difference(one, other);
    html! {
        @if lines.is_empty() { p { "There is no difference." } }
        @else {
            pre.difference tabindex="0" {
                @for line in lines.iter().take(MOST_LINES) {
                    @match line {
                        Line::Both(text) => { "  " (text) "\n" },
                        Line::One(text) => { del { "− " (text) } "\n" },
                        Line::Other(text) => { ins { "+ " (text) } "\n" },
                        Line::Skipped(count) => { span.none { "  … " (count) " lines that are the same" } "\n" },
                    }
                }
            }
            @if lines.len() > MOST_LINES { p { "and " (lines.len() - MOST_LINES) " more lines" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &str, version: &str) -> Option<Value> {
        Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "same", "k": value},
            "metadata": {"name": "m", "resourceVersion": version}}))
    }

    #[test]
    fn an_object_is_told_line_by_line_and_markup_in_it_is_text() {
        let text = told((map("old", "1"), "backup a"), (map("<script>new", "2"), "the cluster")).into_string();
        assert!(text.contains("<del>− ") && text.contains("k: old</del>"), "{text}");
        assert!(text.contains("<ins>+ ") && text.contains("&lt;script&gt;new") && !text.contains("<script"), "{text}");
        assert!(!text.contains("resourceVersion"), "{text}");
        let same = told((map("old", "1"), "backup a"), (map("old", "2"), "the cluster")).into_string();
        assert!(same.contains("There is no difference"), "{same}");
        let gone = told((map("old", "1"), "backup a"), (None, "the cluster")).into_string();
        assert!(gone.contains("It is not in the cluster"), "{gone}");
    }

    #[test]
    fn what_a_secret_holds_is_shown_to_nobody() {
        let secret = |value: &str| {
            Some(json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value, "user": "YW5uYQ=="},
                "metadata": {"name": "s"}}))
        };
        let text = told((secret("b2xk"), "backup a"), (secret("bmV3"), "backup b")).into_string();
        for value in ["b2xk", "bmV3", "YW5uYQ"] {
            assert!(!text.contains(value), "{text}");
        }
        assert!(text.contains("password") && text.contains("another one") && text.contains("is not shown"), "{text}");
    }

    #[test]
    fn an_address_leads_to_the_same_object() {
        let object = Object { resource: "pods", namespace: "", name: "a&b" };
        assert_eq!(address("x", None, object), "/backups/x/compare-object?resource=pods&name=a%26b");
        assert!(address("x", Some("y"), object).ends_with("&with=y"));
    }
}
