//! The objects of the project.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::STORAGE_CLASS;
use velero_testkit::{TestBox, objects};

use super::images::{self, Images, PLATFORMS, RUNS, STREAM};
use super::{PATIENCE, SHOP, running_image};

/// The constraints that name the account of the project.
pub const CONSTRAINTS: &str = "shop-constraints";
/// The account of the project.
pub const ACCOUNT: &str = "runner";

/// The storage class that the migration gives to claims.
pub const MOVED_CLASS: &str = "moved";
/// A pod that nobody makes again, and that names its pull secret.
pub const PULLER: &str = "puller";

/// The pull secret that OpenShift has made for the account `default` of a namespace.
pub fn pull_secret(machine: &Machine, namespace: &str) -> Result<String> {
    secret_of(machine, namespace, "default")
}

fn secret_of(machine: &Machine, namespace: &str, account: &str) -> Result<String> {
    let mut name = String::new();
    wait_until("the pull secret of an account", PATIENCE, || {
        let account = machine.read(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}"))?;
        let found = account["metadata"]["annotations"]["openshift.io/internal-registry-pull-secret-ref"].as_str();
        name = found.context("the account has no pull secret")?.to_owned();
        let uses = |secret: &Value| secret["name"] == name.as_str();
        let used = account["imagePullSecrets"].as_array().is_some_and(|all| all.iter().any(uses));
        ensure!(used, "the account does not use {name}");
        Ok(())
    })?;
    Ok(name)
}

/// Waits until the pod that names its pull secret runs.
pub fn wait_for_puller(machine: &Machine, namespace: &str) -> Result<()> {
    wait_until("the pod with a pull secret", PATIENCE, || {
        let pod = machine.read(&format!("/api/v1/namespaces/{namespace}/pods/{PULLER}"))?;
        let state = &pod["status"]["containerStatuses"][0];
        ensure!(state["ready"] == true, "{PULLER} is not ready: {state}");
        Ok(())
    })
}

/// Makes the storage class that the migration gives to claims: the one of the box under another name.
pub fn make_moved_class(machine: &Machine) -> Result<()> {
    let mut class = machine.read(&format!("/apis/storage.k8s.io/v1/storageclasses/{STORAGE_CLASS}"))?;
    class["metadata"] = json!({"name": MOVED_CLASS});
    machine.apply(&class.to_string())
}

/// Makes the project from inside the network of the box, and waits until it runs.
pub fn create(test_box: &TestBox) -> Result<Images> {
    let machine = test_box.machine();
    machine.apply(&objects::namespace(SHOP).to_string())?;
    let images = images::push(test_box)?;
    let registry = test_box.internal_registry();
    // Pods get the pull secret that their account has when they are made.
    machine.apply(&account().to_string())?;
    secret_of(machine, SHOP, ACCOUNT)?;
    let mut items = objects_of(&registry);
    items.push(puller(&registry, &pull_secret(machine, SHOP)?));
    machine.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    wait_for_puller(machine, SHOP)?;
    running_image(test_box, SHOP, STREAM)?;
    wait_until("the claim", PATIENCE, || {
        let claim = machine.read(&format!("/api/v1/namespaces/{SHOP}/persistentvolumeclaims/data"))?;
        ensure!(claim["status"]["phase"] == "Bound", "the claim is {}", claim["status"]["phase"]);
        Ok(())
    })?;
    Ok(images)
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": SHOP})
}

fn objects_of(registry: &str) -> Vec<Value> {
    let mut all = vec![constraints(), role_binding(), claim(), deployment(registry)];
    all.extend([build_config(registry), build(), deployment_config(registry), route(), service_certificate()]);
    all
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(ACCOUNT)})
}

fn constraints() -> Value {
    json!({
        "apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
        "metadata": {"name": CONSTRAINTS},
        "allowPrivilegedContainer": false, "runAsUser": {"type": "MustRunAsRange"},
        "users": [format!("system:serviceaccount:{SHOP}:{ACCOUNT}"), "system:serviceaccount:other:someone"],
        "groups": [],
    })
}

fn role_binding() -> Value {
    json!({
        "apiVersion": "authorization.openshift.io/v1", "kind": "RoleBinding", "metadata": metadata("readers"),
        "roleRef": {"name": "view"},
        "subjects": [
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SHOP},
            {"kind": "SystemGroup", "name": format!("system:serviceaccounts:{SHOP}")},
        ],
        "userNames": [format!("system:serviceaccount:{SHOP}:{ACCOUNT}")],
        "groupNames": [format!("system:serviceaccounts:{SHOP}")],
    })
}

fn claim() -> Value {
    let mut claim = objects::claim(SHOP, "data");
    claim["metadata"]["annotations"] =
        json!({"openshift.io/migrate-type": "copy", "openshift.io/target-storage-class": MOVED_CLASS});
    claim
}

fn deployment(registry: &str) -> Value {
    let mut deployment = objects::deployment(SHOP, STREAM, 1, "touch /data/here && exec sleep 100000");
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["serviceAccountName"] = json!(ACCOUNT);
    pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let container = &mut pod["containers"][0];
    container["image"] = json!(format!("{registry}/{SHOP}/{STREAM}:{RUNS}"));
    container["imagePullPolicy"] = json!("Always");
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    deployment
}

fn puller(registry: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata(PULLER),
        "spec": {
            "imagePullSecrets": [{"name": secret}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": PULLER, "image": format!("{registry}/{SHOP}/{STREAM}:{RUNS}"), "imagePullPolicy": "Always",
            }],
        },
    })
}

fn build_config(registry: &str) -> Value {
    json!({
        "apiVersion": "build.openshift.io/v1", "kind": "BuildConfig", "metadata": metadata("web-build"),
        "spec": {
            "source": {"git": {"uri": "https://example.com/shop/web.git"}},
            "strategy": {
                "dockerStrategy": {
                    "from": {"kind": "DockerImage", "name": format!("{registry}/{SHOP}/{STREAM}:{PLATFORMS}")},
                },
                "type": "Docker",
            },
            "output": {"to": {"kind": "DockerImage", "name": format!("{registry}/{SHOP}/{STREAM}:{RUNS}")}},
        },
    })
}

fn build() -> Value {
    json!({"apiVersion": "build.openshift.io/v1", "kind": "Build", "metadata": metadata("web-build-1"), "spec": {}})
}

fn deployment_config(registry: &str) -> Value {
    let from = json!({"kind": "ImageStreamTag", "name": format!("{STREAM}:{RUNS}"), "namespace": SHOP});
    let image = format!("{registry}/{SHOP}/{STREAM}:{RUNS}");
    json!({
        "apiVersion": "apps.openshift.io/v1", "kind": "DeploymentConfig", "metadata": metadata("web-config"),
        "spec": {
            "replicas": 1,
            "selector": {"deploymentconfig": "web-config"},
            "triggers": [
                {"type": "ImageChange", "imageChangeParams": {"automatic": true, "containerNames": ["web"], "from": from}},
            ],
            "template": {
                "metadata": {"labels": {"deploymentconfig": "web-config"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

fn route() -> Value {
    let mut metadata = metadata("web");
    metadata["annotations"] = json!({"openshift.io/host.generated": "true"});
    json!({
        "apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": metadata,
        "spec": {"host": "web-shop.apps.source.example.com", "to": {"kind": "Service", "name": "web", "weight": 100}},
    })
}

/// A secret that OpenShift makes again.
fn service_certificate() -> Value {
    let mut metadata = metadata("web-certificate");
    metadata["annotations"] = json!({"service.alpha.openshift.io/originating-service-name": "web"});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"tls.crt": "none"}})
}
