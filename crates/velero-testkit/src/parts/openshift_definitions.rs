//! The types of OpenShift that definitions can play. They take every field; no controller serves them.

use anyhow::Result;
use serde_json::{Value, json};

use super::Part;
use crate::machine::Machine;

/// Group, kind, plural and scope.
const TYPES: &[(&str, &str, &str, &str)] = &[
    ("apps.openshift.io", "DeploymentConfig", "deploymentconfigs", "Namespaced"),
    ("authorization.openshift.io", "ClusterRoleBinding", "clusterrolebindings", "Cluster"),
    ("authorization.openshift.io", "RoleBinding", "rolebindings", "Namespaced"),
    ("build.openshift.io", "Build", "builds", "Namespaced"),
    ("build.openshift.io", "BuildConfig", "buildconfigs", "Namespaced"),
    ("config.openshift.io", "ClusterVersion", "clusterversions", "Cluster"),
    ("imageregistry.operator.openshift.io", "Config", "configs", "Cluster"),
    ("route.openshift.io", "Route", "routes", "Namespaced"),
    ("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints", "Cluster"),
];

/// Makes the API server know the types of OpenShift.
pub struct OpenShiftDefinitions;

impl Part for OpenShiftDefinitions {
    fn name(&self) -> &'static str {
        "openshift-definitions"
    }

    fn install(&self) -> Result<()> {
        Ok(())
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let definitions: Vec<Value> = TYPES.iter().map(definition).collect();
        machine.apply(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}).to_string())
    }

    /// A list of each is answered once the definitions are in force.
    fn check(&self, machine: &Machine) -> Result<()> {
        TYPES.iter().try_for_each(|(group, _, plural, _)| machine.read(&format!("/apis/{group}/v1/{plural}")).map(drop))
    }
}

fn definition((group, kind, plural, scope): &(&str, &str, &str, &str)) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}
