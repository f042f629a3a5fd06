//! What a restore would do, as a table, JSON or YAML.

use serde::Serialize;
use serde_json::Value;
use velero_api::records::Results;
use velero_engine::restore::{ItemPreview, Preview, PreviewAction};
use velero_rules::difference::{Change, HIDDEN};

use super::table::Table;

/// What stands for nothing.
const NOTHING: &str = "<none>";
/// How much of a value a table shows.
const LONGEST_VALUE: usize = 120;

/// What a restore would do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RestorePreview {
    /// The backup.
    backup: String,
    /// How many objects there are for each action.
    summary: Summary,
    /// One entry an object, in the order they would be written.
    items: Vec<ItemPreview>,
    /// What should be looked at.
    warnings: Results,
    /// What would go wrong.
    errors: Results,
}

/// How many objects there are for each action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Summary {
    create: usize,
    update: usize,
    skip: usize,
    conflict: usize,
    fail: usize,
}

impl RestorePreview {
    /// Puts together what is shown; values of Secrets are left out.
    pub(crate) fn new(backup: &str, preview: Preview, warnings: Results, errors: Results) -> Self {
        let mut items = preview.items;
        items.iter_mut().for_each(ItemPreview::hide_secrets);
        Self { backup: backup.to_owned(), summary: Summary::of(&items), items, warnings, errors }
    }

    /// How many objects could not be restored.
    pub(crate) fn failures(&self) -> usize {
        self.summary.fail
    }

    /// A row an object, below it what would change, and the sums.
    pub(crate) fn table(&self) -> String {
        let rows = self.items.iter().map(cells).collect();
        let table = Table::new(&["Action", "Kind", "Namespace", "Name", "Reason"], rows).render();
        let mut lines = table.lines().map(str::trim_end);
        let mut text = lines.next().map(|headings| format!("{headings}\n")).unwrap_or_default();
        for (line, item) in lines.zip(&self.items) {
            text.push_str(&format!("{line}\n"));
            for change in &item.changes {
                text.push_str(&format!("    {}\n", describe(change)));
            }
        }
        let gap = if self.items.is_empty() { "" } else { "\n" };
        format!("{text}{gap}{}\n", self.summary.text())
    }

    /// Warnings and errors, one a line.
    pub(crate) fn messages(&self) -> Vec<String> {
        let all = |kind: &'static str, results: &Results| -> Vec<String> {
            let of_namespaces = results.namespaces.iter().flat_map(|(namespace, messages)| {
                messages.iter().map(move |message| format!("{kind}: namespace {namespace}: {message}"))
            });
            let others = results.velero.iter().chain(&results.cluster).map(|message| format!("{kind}: {message}"));
            others.chain(of_namespaces).collect()
        };
        [all("warning", &self.warnings), all("error", &self.errors)].concat()
    }
}

impl Summary {
    fn of(items: &[ItemPreview]) -> Self {
        let mut summary = Self::default();
        for item in items {
            *match item.action {
                PreviewAction::Create => &mut summary.create,
                PreviewAction::Update => &mut summary.update,
                PreviewAction::Skip => &mut summary.skip,
                PreviewAction::Conflict => &mut summary.conflict,
                PreviewAction::Fail => &mut summary.fail,
            } += 1;
        }
        summary
    }

    fn text(self) -> String {
        let Self { create, update, skip, conflict, fail } = self;
        format!("{create} create, {update} update, {skip} skip, {conflict} conflict, {fail} fail")
    }
}

fn cells(item: &ItemPreview) -> Vec<String> {
    let action = match item.action {
        PreviewAction::Create => "create",
        PreviewAction::Update => "update",
        PreviewAction::Skip => "skip",
        PreviewAction::Conflict => "conflict",
        PreviewAction::Fail => "fail",
    };
    let namespace = item.namespace.clone().unwrap_or_default();
    vec![action.to_owned(), item.kind.clone(), namespace, item.name.clone(), item.reason.clone()]
}

fn describe(change: &Change) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| NOTHING.to_owned(), shortened);
    format!("{}: {} -> {}", change.path, value(&change.from), value(&change.to))
}

fn shortened(value: &Value) -> String {
    if value == HIDDEN {
        return HIDDEN.to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LAST_APPLIED: &str = "kubectl.kubernetes.io~1last-applied-configuration";

    fn item(action: PreviewAction, kind: &str, namespace: Option<&str>, changes: Vec<Change>) -> ItemPreview {
        ItemPreview {
            action,
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            resource: String::new(),
            namespace: namespace.map(str::to_owned),
            original_namespace: None,
            name: "one".to_owned(),
            reason: if action == PreviewAction::Skip { "it is the same".to_owned() } else { String::new() },
            changes,
        }
    }

    fn change(path: &str, from: Option<Value>, to: Option<Value>) -> Change {
        Change { path: path.to_owned(), from, to }
    }

    fn shown(items: Vec<ItemPreview>) -> RestorePreview {
        RestorePreview::new("b", Preview { items }, Results::default(), Results::default())
    }

    #[test]
    fn a_table_has_a_row_an_object_with_its_changes_below_and_the_sums() {
        let changes =
            vec![change("/data/a", Some(json!("x")), Some(json!(2))), change("/data/b", None, Some(json!([])))];
        let preview = shown(vec![
            item(PreviewAction::Create, "Namespace", None, Vec::new()),
            item(PreviewAction::Update, "ConfigMap", Some("shop"), changes),
            item(PreviewAction::Skip, "ConfigMap", Some("shop"), Vec::new()),
        ]);
        let expected = "\
ACTION   KIND        NAMESPACE   NAME   REASON
create   Namespace               one
update   ConfigMap   shop        one
    /data/a: \"x\" -> 2
    /data/b: <none> -> []
skip     ConfigMap   shop        one    it is the same

1 create, 1 update, 1 skip, 0 conflict, 0 fail
";
        assert_eq!(preview.table(), expected);
        assert_eq!(shown(Vec::new()).table(), "0 create, 0 update, 0 skip, 0 conflict, 0 fail\n");
    }

    #[test]
    fn the_content_of_a_secret_is_never_shown() {
        let secret = || Some(json!("c2VjcmV0"));
        let applied = format!("/metadata/annotations/{LAST_APPLIED}");
        let cases = [
            ("/data", false),
            ("/data/password", false),
            ("/stringData/password", false),
            ("/metadata", false),
            ("/metadata/annotations", false),
            (applied.as_str(), false),
            ("", false),
            ("/metadata/annotations/team", true),
            ("/metadata/labels/team", true),
            ("/type", true),
        ];
        for (path, is_shown) in cases {
            let changes = vec![change(path, secret(), secret()), change(path, None, secret())];
            let preview = shown(vec![item(PreviewAction::Update, "Secret", Some("shop"), changes)]);
            let texts = [preview.table(), serde_json::to_string(&preview).unwrap()];
            for text in texts {
                assert_eq!(text.contains("c2VjcmV0"), is_shown, "{path}: {text}");
                assert_eq!(text.contains(HIDDEN), !is_shown, "{path}: {text}");
            }
            assert_eq!(preview.items[0].changes[1].from, None, "nothing stays nothing");
        }
        let changes = vec![change("/data/password", secret(), None)];
        let other = shown(vec![item(PreviewAction::Update, "ConfigMap", Some("shop"), changes)]);
        assert!(other.table().contains("c2VjcmV0"));
    }

    #[test]
    fn json_says_the_backup_the_sums_the_items_and_the_messages() {
        let (mut warnings, mut errors) = (Results::default(), Results::default());
        warnings.add("shop", "odd");
        errors.add_velero("bad");
        let items = vec![item(PreviewAction::Fail, "Pod", Some("shop"), Vec::new())];
        let preview = RestorePreview::new("b", Preview { items }, warnings, errors);
        let value = serde_json::to_value(&preview).unwrap();
        assert_eq!((&value["backup"], &value["summary"]["fail"]), (&json!("b"), &json!(1)));
        assert_eq!(value["items"][0]["action"], "fail");
        assert_eq!(value["warnings"], json!({"namespaces": {"shop": ["odd"]}}));
        assert_eq!(preview.messages(), ["warning: namespace shop: odd", "error: bad"]);
        assert_eq!(preview.failures(), 1);
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let long = json!("ä".repeat(500));
        let text = describe(&change("/data/a", Some(long), None));
        assert!(text.ends_with("... -> <none>") && text.chars().count() < 160, "{text}");
    }
}
