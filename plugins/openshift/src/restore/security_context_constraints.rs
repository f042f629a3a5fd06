//! Constraints name service accounts, whose namespaces may be mapped.

use velero_plugin::item::texts_mut;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;
use crate::shared::account_names::mapped_user;

/// Follows the namespace mapping.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/20-SCC-restore-plugin", resources: &["securitycontextconstraints"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let namespaces = &input.restore.spec.namespace_mapping;
    if namespaces.is_empty() {
        return Ok(RestoreItemOutcome::default());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        for user in texts_mut(item, "/users") {
            *user = mapped_user(user, namespaces).unwrap_or_else(|| std::mem::take(user));
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn users_follow_the_namespace_mapping() {
        let constraints = |users: Value| json!({"kind": "SecurityContextConstraints", "metadata": {"name": "x"}, "users": users, "groups": ["system:serviceaccounts:old"]});
        let map = json!({"old": "new"});
        for (row, namespaces, users, expected) in [
            ("no mapping", json!({}), json!(["system:serviceaccount:old:web"]), None),
            (
                "account",
                map.clone(),
                json!(["system:serviceaccount:old:web"]),
                Some(json!(["system:serviceaccount:new:web"])),
            ),
            (
                "namespace",
                map.clone(),
                json!(["system:serviceaccount:old"]),
                Some(json!(["system:serviceaccount:new"])),
            ),
            (
                "one of two",
                map.clone(),
                json!(["a", "system:serviceaccount:old:x"]),
                Some(json!(["a", "system:serviceaccount:new:x"])),
            ),
            ("other namespace", map.clone(), json!(["system:serviceaccount:other:web"]), None),
            ("no account", map.clone(), json!(["system:admin", "old"]), None),
            ("no users", map, json!(null), None),
        ] {
            let item = constraints(users);
            let expected = expected.map_or(Expected::Same, |users| Expected::Item(constraints(users)));
            let outcome = run(&item, &mapping(&namespaces), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &expected);
        }
    }
}
