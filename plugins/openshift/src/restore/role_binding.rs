//! Role bindings of OpenShift name service accounts, whose namespaces may be mapped. Those that OpenShift makes in every
//! project stay out.

use velero_plugin::item::text;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use super::cluster_role_binding;
use crate::action::PureRestore;
use crate::compat::Compat;
use crate::settings::Settings;

/// Follows the namespace mapping, or keeps it out.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/21-role-bindings-restore-plugin",
    resources: &["rolebinding.authorization.openshift.io"],
    restore,
};

/// What OpenShift makes in every project.
const OF_OPENSHIFT: &[&str] = &["system:image-pullers", "system:image-builders", "system:deployers"];

fn restore(input: RestoreItemInput<'_>, settings: &Settings) -> Result<RestoreItemOutcome> {
    let is_of_openshift = OF_OPENSHIFT.contains(&text(input.item, "/metadata/name"));
    if is_of_openshift && !settings.compat(Compat::SystemBindings) {
        return Ok(RestoreItemOutcome::skipped());
    }
    cluster_role_binding::restore(input, settings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, compat, mapping, run};

    #[test]
    fn bindings_that_openshift_makes_stay_out() {
        let binding = |name: &str, namespace: &str| json!({"kind": "RoleBinding", "metadata": {"name": name}, "subjects": [{"namespace": namespace}]});
        let (now, old_way) = (Settings::default(), compat(&[Compat::SystemBindings]));
        for (name, settings, namespaces, expected) in [
            ("system:image-pullers", &now, json!({}), Expected::Skip),
            ("system:image-builders", &now, json!({"old": "new"}), Expected::Skip),
            ("system:deployers", &now, json!({}), Expected::Skip),
            ("system:others", &now, json!({}), Expected::Same),
            ("edit", &now, json!({"old": "new"}), Expected::Item(binding("edit", "new"))),
            ("edit", &now, json!({}), Expected::Same),
            ("system:deployers", &old_way, json!({}), Expected::Same),
            ("system:deployers", &old_way, json!({"old": "new"}), Expected::Item(binding("system:deployers", "new"))),
        ] {
            let item = binding(name, "old");
            let outcome = run(&item, &mapping(&namespaces), |input| restore(input, settings));
            check(name, &item, outcome, &expected);
        }
    }
}
