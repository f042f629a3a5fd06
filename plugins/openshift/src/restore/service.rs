//! The external addresses of a load balancer belong to the old cluster.

use velero_plugin::item::{remove, text};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;

/// Drops external addresses of load balancers.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/15-service-restore-plugin", resources: &["services"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    if text(input.item, "/spec/type") != "LoadBalancer" {
        return Ok(RestoreItemOutcome::default());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| remove(item, "/spec", "externalIPs")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn only_load_balancers_lose_their_external_addresses() {
        let service = |spec: Value| json!({"kind": "Service", "metadata": {"name": "web"}, "spec": spec});
        let balancer = json!({"type": "LoadBalancer", "externalIPs": ["1.2.3.4"], "clusterIPs": ["10.0.0.1"]});
        let freed = json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]});
        for (row, spec, expected) in [
            ("load balancer", balancer, Expected::Item(service(freed.clone()))),
            ("load balancer without", freed, Expected::Same),
            ("cluster address", json!({"type": "ClusterIP", "externalIPs": ["1.2.3.4"]}), Expected::Same),
            ("node port", json!({"type": "NodePort", "externalIPs": ["1.2.3.4"]}), Expected::Same),
            ("no type", json!({"externalIPs": ["1.2.3.4"]}), Expected::Same),
        ] {
            let item = service(spec);
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &expected);
        }
    }
}
