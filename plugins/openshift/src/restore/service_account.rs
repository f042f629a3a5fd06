//! A service account gets its pull secret from the cluster it is in.

use serde_json::Value;
use velero_plugin::item::text;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;

/// Drops the pull secret of the old cluster.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/02-serviceaccount-restore-plugin", resources: &["serviceaccounts"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let prefix = format!("{}-dockercfg-", text(input.item, "/metadata/name"));
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        for list in ["secrets", "imagePullSecrets"] {
            drop_last(item, list, &prefix);
        }
    }))
}

/// Drops the last secret with that prefix, which is the one the cluster added.
fn drop_last(item: &mut Value, list: &str, prefix: &str) {
    let Some(secrets) = item.get_mut(list).and_then(Value::as_array_mut) else { return };
    if let Some(last) = secrets.iter().rposition(|secret| text(secret, "/name").starts_with(prefix)) {
        secrets.remove(last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn the_pull_secret_of_the_old_cluster_is_dropped() {
        let list = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Value>();
        for (row, before, after) in [
            ("nothing", json!({}), json!({})),
            ("own", json!({"secrets": list(&["web-dockercfg-x"])}), json!({"secrets": []})),
            (
                "the last of two, others stay",
                json!({"secrets": list(&["web-dockercfg-x", "web-token-y", "web-dockercfg-z", "mine"])}),
                json!({"secrets": list(&["web-dockercfg-x", "web-token-y", "mine"])}),
            ),
            (
                "both lists",
                json!({"secrets": list(&["a", "web-dockercfg-x"]), "imagePullSecrets": list(&["web-dockercfg-x", "b"])}),
                json!({"secrets": list(&["a"]), "imagePullSecrets": list(&["b"])}),
            ),
            (
                "of another account",
                json!({"imagePullSecrets": list(&["default-dockercfg-x"])}),
                json!({"imagePullSecrets": list(&["default-dockercfg-x"])}),
            ),
        ] {
            let with = |fields: &Value| {
                let mut item = json!({"kind": "ServiceAccount", "metadata": {"name": "web"}});
                crate::testing::merge(&mut item, fields);
                item
            };
            let item = with(&before);
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &Expected::Item(with(&after)));
        }
    }
}
