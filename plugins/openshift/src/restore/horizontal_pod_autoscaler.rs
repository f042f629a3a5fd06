//! Autoscalers made before API groups name a deployment config by version `v1`, which no longer exists.

use serde_json::json;
use velero_plugin::item::{describe, text};
use velero_plugin::{Error, RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;

/// Names the group of deployment configs.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/24-horizontalpodautoscaler-restore-plugin",
    resources: &["horizontalpodautoscalers"],
    restore,
};

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let version = text(input.item, "/spec/scaleTargetRef/apiVersion");
    if version.split('/').count() > 2 {
        let item = describe(input.item);
        let form = "is not of the form group/version";
        return Err(Error::Item(format!("{item}, spec.scaleTargetRef.apiVersion: {version:?} {form}")));
    }
    if version != "v1" || text(input.item, "/spec/scaleTargetRef/kind") != "DeploymentConfig" {
        return Ok(RestoreItemOutcome::default());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        item["spec"]["scaleTargetRef"]["apiVersion"] = json!("apps.openshift.io/v1")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn only_deployment_configs_without_a_group_get_one() {
        let scaler = |version: &str, kind: &str| json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": {"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "web"}, "targetCPUUtilizationPercentage": 80}});
        for (version, kind, expected) in [
            ("v1", "DeploymentConfig", Expected::Item(scaler("apps.openshift.io/v1", "DeploymentConfig"))),
            ("apps.openshift.io/v1", "DeploymentConfig", Expected::Same),
            ("v1", "ReplicationController", Expected::Same),
            ("apps/v1", "Deployment", Expected::Same),
            ("", "DeploymentConfig", Expected::Same),
            ("a/b/c", "DeploymentConfig", Expected::Error("spec.scaleTargetRef.apiVersion: \"a/b/c\"")),
        ] {
            let item = scaler(version, kind);
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(&format!("{version} {kind}"), &item, outcome, &expected);
        }
        let bare = json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": {}});
        let outcome = run(&bare, &mapping(&json!({})), |input| restore(input, &Settings::default()));
        check("no target", &bare, outcome, &Expected::Same);
    }
}
