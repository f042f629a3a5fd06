//! A host that the old cluster made up for a route belongs to that cluster.

use velero_plugin::item::{annotation, remove};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::names::{TRUE, annotations};
use crate::settings::Settings;

/// Drops generated hosts.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/05-route-restore-plugin", resources: &["routes"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    if annotation(input.item, annotations::HOST_GENERATED) != Some(TRUE) {
        return Ok(RestoreItemOutcome::default());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| remove(item, "/spec", "host")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn only_a_generated_host_is_dropped() {
        let route = |generated: Option<&str>, spec: Value| {
            let annotations = generated.map(|value| json!({"openshift.io/host.generated": value}));
            json!({"kind": "Route", "metadata": {"name": "web", "annotations": annotations}, "spec": spec})
        };
        let with_host = json!({"host": "web.apps.old", "path": "/", "subdomain": "web"});
        let without = json!({"path": "/", "subdomain": "web"});
        for (row, item, expected) in [
            ("generated", route(Some("true"), with_host.clone()), Expected::Item(route(Some("true"), without.clone()))),
            ("generated, no host", route(Some("true"), without), Expected::Same),
            ("chosen", route(Some("false"), with_host.clone()), Expected::Same),
            ("spelt otherwise", route(Some("True"), with_host.clone()), Expected::Same),
            ("no annotation", route(None, with_host), Expected::Same),
            (
                "no spec",
                json!({"kind": "Route", "metadata": {"annotations": {"openshift.io/host.generated": "true"}}}),
                Expected::Same,
            ),
        ] {
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &expected);
        }
    }
}
