//! Cluster role bindings of OpenShift name service accounts, whose namespaces may be mapped.

use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;
use crate::shared::account_names::map_binding;

/// Follows the namespace mapping.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/22-cluster-role-bindings-restore-plugin",
    resources: &["clusterrolebinding.authorization.openshift.io"],
    restore,
};

pub(super) fn restore(input: RestoreItemInput<'_>, settings: &Settings) -> Result<RestoreItemOutcome> {
    if input.restore.spec.namespace_mapping.is_empty() {
        return Ok(RestoreItemOutcome::default());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| map_binding(item, input.restore, settings)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::compat::Compat;
    use crate::testing::{Expected, check, compat, mapping, run};

    #[test]
    fn bindings_follow_the_namespace_mapping() {
        let binding = |namespace: &str| -> Value {
            json!({
                "kind": "ClusterRoleBinding", "metadata": {"name": "x"},
                "roleRef": {"name": "edit", "namespace": namespace},
                "userNames": [format!("system:serviceaccount:{namespace}:web"), "alice"],
                "groupNames": [format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
                "subjects": [
                    {"kind": "ServiceAccount", "name": "web", "namespace": namespace},
                    {"kind": "SystemGroup", "name": format!("system:serviceaccounts:{namespace}")},
                    {"kind": "User", "name": "alice"},
                ],
            })
        };
        let mut four = binding("new");
        four["groupNames"][0] = json!("system:serviceaccounts:old");
        four["subjects"][1]["name"] = json!("system:serviceaccounts:old");
        let bare = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "x"}, "userNames": null});
        let default = Settings::default();
        for (row, namespaces, item, settings, expected) in [
            ("no mapping", json!({}), binding("old"), &default, Expected::Same),
            ("mapped", json!({"old": "new"}), binding("old"), &default, Expected::Item(binding("new"))),
            ("other namespace", json!({"old": "new"}), binding("other"), &default, Expected::Same),
            ("nothing in it", json!({"old": "new"}), bare, &default, Expected::Same),
            (
                "four parts",
                json!({"old": "new"}),
                binding("old"),
                &compat(&[Compat::FourPartGroups]),
                Expected::Item(four),
            ),
        ] {
            let outcome = run(&item, &mapping(&namespaces), |input| restore(input, settings));
            check(row, &item, outcome, &expected);
        }
    }
}
