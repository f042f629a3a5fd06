//! Who the server is, and what it may do.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use velero_api::features::ENABLE_CSI;
use velero_api::{DEFAULT_NAMESPACE, GROUP};

use super::{Installation, Resource, SERVER, metadata, web_page};
use crate::arguments::values::merged;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The account of the pods that move the data of volumes.
pub(crate) const MOVER: &str = "velero-data-mover";
/// The annotations by which clouds know an account. Their policies name the account itself, so no other one is known by them.
const CLOUD_IDENTITIES: [&str; 3] =
    ["eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/client-id"];
/// The name of what node agents may do in the namespace.
const NODE_AGENT: &str = "velero-node-agent";

/// The ClusterRole, its binding and the ServiceAccount; none where an account is named that has its rights already.
pub(super) fn resources(installation: &Installation<'_>) -> Vec<Resource> {
    let pod = &installation.arguments.pod;
    if !pod.service_account_name.is_empty() {
        return Vec::new();
    }
    let name = cluster_name(installation.namespace);
    let features = installation.arguments.server.features.iter().flat_map(|list| &list.0);
    let csi = features.into_iter().any(|name| name == ENABLE_CSI);
    let role = (!pod.cluster_admin).then(|| cluster_role(&name, csi, web_page::impersonates(installation)));
    let role_name = if pod.cluster_admin { "cluster-admin" } else { &name };
    let binding = cluster_role_binding(&name, role_name, installation.namespace);
    let account = service_account(installation, SERVER);
    let resources = role.into_iter().chain([binding, account]).chain(of_node_agents(installation));
    resources.map(Resource::applied).collect()
}

/// The annotation by which a cloud knows an account, where there is one.
pub(crate) fn cloud_identity(annotations: &BTreeMap<String, String>) -> Option<&'static str> {
    CLOUD_IDENTITIES.into_iter().find(|name| annotations.get(*name).is_some_and(|value| !value.is_empty()))
}

/// The account of movers and its rights, where an installation has node agents and leaves it out: without it movers run as
/// the agents do.
pub(super) fn left_out(installation: &Installation<'_>) -> Vec<Resource> {
    if !installation.arguments.node_agent.use_node_agent || has_mover_account(installation) {
        return Vec::new();
    }
    of_movers(installation).into_iter().map(Resource::applied).collect()
}

/// Whether movers have an account of their own: a cloud that knows the server by its account would not know that one.
fn has_mover_account(installation: &Installation<'_>) -> bool {
    let pod = &installation.arguments.pod;
    pod.service_account_name.is_empty() && cloud_identity(&merged(&pod.sa_annotations)).is_none()
}

/// The account of movers, and what it may do.
fn of_movers(installation: &Installation<'_>) -> Vec<Value> {
    let [role, binding] = namespaced_role(installation.namespace, MOVER, &mover_rules(), MOVER);
    vec![role, binding, service_account(installation, MOVER)]
}

/// What node agents need beside: to remove what they have made for pods that move data, and an account for these that may
/// do little.
fn of_node_agents(installation: &Installation<'_>) -> Vec<Value> {
    if !installation.arguments.node_agent.use_node_agent {
        return Vec::new();
    }
    let removes = json!([{
        "apiGroups": [""], "verbs": ["delete"],
        "resources": ["pods", "persistentvolumeclaims", "secrets", "configmaps"],
    }]);
    let mut resources = Vec::new();
    if !installation.arguments.pod.cluster_admin {
        resources.extend(namespaced_role(installation.namespace, NODE_AGENT, &removes, SERVER));
    }
    if has_mover_account(installation) {
        resources.extend(of_movers(installation));
    }
    resources
}

/// What a pod does that moves the data of a volume: it reads what it works for, opens the repository, and tells how far
/// it is.
fn mover_rules() -> Value {
    let own = ["podvolumebackups", "podvolumerestores", "datauploads", "datadownloads", "backupstoragelocations"];
    json!([
        { "apiGroups": [GROUP], "resources": own, "verbs": ["get", "list", "watch"] },
        { "apiGroups": [GROUP], "resources": ["backuprepositories"], "verbs": ["get", "list", "watch", "create"] },
        { "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"] },
        { "apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"] },
    ])
}

fn namespaced_role(namespace: &str, name: &str, rules: &Value, account: &str) -> [Value; 2] {
    let role = json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": metadata(Some(namespace), name), "rules": rules,
    });
    let binding = json!({
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": metadata(Some(namespace), name),
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    });
    [role, binding]
}

/// The name of what belongs to the cluster: that of the server, and in other namespaces than the usual one theirs too.
pub(crate) fn cluster_name(namespace: &str) -> String {
    match namespace {
        DEFAULT_NAMESPACE => SERVER.to_owned(),
        other => format!("{SERVER}-{other}"),
    }
}

/// What a server needs that backs everything up and restores it: to read and write all objects, to hand on rights it
/// does not have itself, and everything with its own kinds. It cannot delete what is not its own, and CSI snapshots
/// only where it takes them. For people whom a proxy names it acts only where that was asked for.
fn cluster_role(name: &str, csi: bool, impersonates: bool) -> Value {
    let own = if csi { vec![GROUP, "snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io"] } else { vec![GROUP] };
    let mut rules = vec![
        json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch"] }),
        json!({ "apiGroups": [RBAC_GROUP], "resources": ["roles", "clusterroles"], "verbs": ["bind", "escalate"] }),
        json!({ "apiGroups": own, "resources": ["*"], "verbs": ["delete", "deletecollection"] }),
    ];
    if impersonates {
        rules.push(json!({ "apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"] }));
    }
    json!({ "apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata(None, name), "rules": rules })
}

fn cluster_role_binding(name: &str, role: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": metadata(None, name),
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": SERVER, "namespace": namespace }],
    })
}

/// An account, with the annotations that flags give.
fn service_account(installation: &Installation<'_>, name: &str) -> Value {
    let mut metadata = metadata(Some(installation.namespace), name);
    let annotations = merged(&installation.arguments.pod.sa_annotations);
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata })
}
