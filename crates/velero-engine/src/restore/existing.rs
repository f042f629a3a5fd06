//! What to do when the object is there already.

use serde_json::{Map, Value, json};
use velero_api::labels;
use velero_api::v1::ExistingResourcePolicy;
use velero_cluster::merge_patch_diff;
use velero_plugin::item::text;
use velero_rules::difference::{self, Change};

use super::cluster_changes::only_cluster_changed;

/// What to do about an object that exists.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// It is as it should be.
    Equal,
    /// It is as it should be, but for the labels that say where it comes from.
    Relabel(Value),
    /// It differs and stays as it is.
    Differs,
    /// It is changed by this merge patch; if that fails, only its labels are.
    Patch { patch: Value, labels_only: Option<Value> },
}

/// Compares the object in the cluster with the one to restore. Both have been stripped; who owned which field, and when,
/// makes no difference. Of one that is `ours`, made by a restore that this one goes on with, what the cluster has added since
/// makes none either.
pub(super) fn decide(live: &Value, wanted: &Value, policy: Option<&ExistingResourcePolicy>, is_ours: bool) -> Verdict {
    let update = policy == Some(&ExistingResourcePolicy::Update);
    let relabel = update.then(|| json!({"metadata": {"labels": restore_labels(wanted)}}));
    let mut marked = live.clone();
    copy_restore_labels(&mut marked, wanted);
    if marked == *wanted || is_ours && only_cluster_changed(&marked, wanted) {
        return relabel.map_or(Verdict::Equal, Verdict::Relabel);
    }
    if text(wanted, "/kind") == "ServiceAccount" && text(wanted, "/apiVersion") == "v1" {
        let merged = merged_service_account(&marked, wanted);
        let patch = merge_patch_diff(&marked, &merged);
        return match patch == json!({}) {
            true => Verdict::Equal,
            false => Verdict::Patch { patch, labels_only: relabel },
        };
    }
    match relabel {
        None => Verdict::Differs,
        Some(relabel) => {
            let mut patch = merge_patch_diff(&marked, wanted);
            patch["metadata"]["labels"] = with(patch["metadata"]["labels"].take(), restore_labels(wanted));
            Verdict::Patch { patch, labels_only: Some(relabel) }
        }
    }
}

/// The places where two objects differ, for people.
pub(super) fn changes(live: &Value, wanted: &Value) -> Vec<Change> {
    let mut marked = live.clone();
    copy_restore_labels(&mut marked, wanted);
    difference::changes(&marked, wanted)
}

fn restore_labels(object: &Value) -> Value {
    let of = |key: &str| object["metadata"]["labels"][key].clone();
    json!({ labels::BACKUP_NAME: of(labels::BACKUP_NAME), labels::RESTORE_NAME: of(labels::RESTORE_NAME) })
}

fn copy_restore_labels(object: &mut Value, from: &Value) {
    if object["metadata"]["labels"].is_null() {
        object["metadata"]["labels"] = json!({});
    }
    for key in [labels::BACKUP_NAME, labels::RESTORE_NAME] {
        object["metadata"]["labels"][key] = from["metadata"]["labels"][key].clone();
    }
}

fn with(map: Value, more: Value) -> Value {
    let mut all = match map {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if let Value::Object(more) = more {
        all.extend(more);
    }
    Value::Object(all)
}

/// The account in the cluster, with what the backup adds to it: nothing that is there is lost.
fn merged_service_account(live: &Value, wanted: &Value) -> Value {
    let mut merged = live.clone();
    for list in ["secrets", "imagePullSecrets"] {
        let mut all = live[list].as_array().cloned().unwrap_or_default();
        let known = all.len();
        for reference in wanted[list].as_array().into_iter().flatten() {
            if !all.iter().any(|known| known["name"] == reference["name"]) {
                all.push(reference.clone());
            }
        }
        if all.len() > known {
            merged[list] = all.into();
        }
    }
    for map in ["labels", "annotations"] {
        let more = wanted["metadata"][map].clone();
        if more.is_object() {
            // What the cluster has wins, but for the labels that say where the object comes from.
            let all = with(more, live["metadata"][map].clone());
            merged["metadata"][map] = all;
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(value: &str, restore: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"app": "web", labels::BACKUP_NAME: "b", labels::RESTORE_NAME: restore}},
            "data": {"k": value}})
    }

    fn without_restore_labels(mut object: Value) -> Value {
        object["metadata"]["labels"] = json!({"app": "web"});
        object
    }

    #[test]
    fn an_equal_object_stays_and_is_relabelled_only_by_update() {
        let wanted = config_map("1", "r");
        for live in [without_restore_labels(wanted.clone()), config_map("1", "earlier")] {
            assert_eq!(decide(&live, &wanted, None, false), Verdict::Equal);
            assert_eq!(decide(&live, &wanted, Some(&ExistingResourcePolicy::None), false), Verdict::Equal);
            let labels = json!({"metadata": {"labels": {labels::BACKUP_NAME: "b", labels::RESTORE_NAME: "r"}}});
            assert_eq!(decide(&live, &wanted, Some(&ExistingResourcePolicy::Update), false), Verdict::Relabel(labels));
        }
    }

    #[test]
    fn a_different_object_stays_unless_update_is_asked_for() {
        let (live, wanted) = (without_restore_labels(config_map("1", "r")), config_map("2", "r"));
        assert_eq!(decide(&live, &wanted, None, false), Verdict::Differs);
        assert_eq!(decide(&live, &wanted, Some(&ExistingResourcePolicy::None), false), Verdict::Differs);
        let Verdict::Patch { patch, .. } = decide(&live, &wanted, Some(&ExistingResourcePolicy::Update), false) else {
            panic!("no patch");
        };
        let labels = json!({labels::BACKUP_NAME: "b", labels::RESTORE_NAME: "r"});
        assert_eq!(patch, json!({"data": {"k": "2"}, "metadata": {"labels": labels}}));
    }

    #[test]
    fn a_service_account_keeps_what_it_has_and_gains_what_the_backup_has() {
        let account = |secrets: Value, annotations: Value| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "a", "labels": {labels::BACKUP_NAME: "b", labels::RESTORE_NAME: "r"}, "annotations": annotations},
                "secrets": secrets})
        };
        let live = account(json!([{"name": "one"}]), json!({"a": "live"}));
        let wanted = account(json!([{"name": "one"}, {"name": "two"}]), json!({"a": "backup", "b": "new"}));
        let expected =
            json!({"secrets": [{"name": "one"}, {"name": "two"}], "metadata": {"annotations": {"b": "new"}}});
        assert_eq!(decide(&live, &wanted, None, false), Verdict::Patch { patch: expected, labels_only: None });
        let fewer = account(json!([]), json!({}));
        assert_eq!(decide(&live, &fewer, None, false), Verdict::Equal);
    }

    #[test]
    fn the_labels_of_restores_are_no_change() {
        let (live, wanted) = (config_map("1", "earlier"), config_map("2", "r"));
        let found: Vec<String> = changes(&live, &wanted).into_iter().map(|change| change.path).collect();
        assert_eq!(found, ["/data/k"]);
    }
}
