//! What a restore has to treat with care: for each of its rules an object that the rule is about.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::objects;

/// The namespace of most objects.
pub const WORK: &str = "work";
/// The namespace some objects of [`WORK`] refer to.
pub const SIDE: &str = "side";

/// A node port that is asked for by number.
pub const NODE_PORT: u16 = 30_020;

/// Waits until a claim has its volume.
pub fn wait_for_claim(machine: &Machine, namespace: &str, name: &str) -> Result<()> {
    wait_until("the claim to be bound", Duration::from_secs(60), || {
        let claim = machine.read(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"))?;
        ensure!(claim["status"]["phase"] == "Bound", "{namespace}/{name} is {}", claim["status"]);
        Ok(())
    })
}

/// Makes every object and waits until the controllers have answered: workloads have their pods, claims their volumes.
pub fn create(machine: &Machine) -> Result<()> {
    for object in objects() {
        machine.apply(&object.to_string())?;
    }
    machine.wait_for_definition("orders.shop.example.com")?;
    machine.apply(&order("open", json!({})).to_string())?;
    machine.apply(&order("told", json!({"velero.io/restore-status": "true"})).to_string())?;
    for (kind, name, status) in statuses() {
        let patch = json!({"status": status}).to_string();
        machine.kubectl(&["-n", WORK, "patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch])?;
    }
    settle(machine)
}

fn settle(machine: &Machine) -> Result<()> {
    for claim in ["kept", "thrown"] {
        wait_for_claim(machine, WORK, claim)?;
    }
    wait_until("the controllers to answer", Duration::from_secs(60), || {
        let pods = machine.names_at(&format!("/api/v1/namespaces/{WORK}/pods"))?;
        let of = |part: &str| pods.iter().filter(|name| name.starts_with(part)).count();
        for part in ["web-", "store-0", "import-"] {
            ensure!(of(part) > 0, "no {part} among {pods:?}");
        }
        ensure!(of("web-") == 2, "the Deployment has not its pods: {pods:?}");
        let secret = machine.read(&format!("/api/v1/namespaces/{WORK}/secrets/lasting"))?;
        ensure!(secret["data"]["token"].is_string(), "the token is not made yet");
        Ok(())
    })
}

fn objects() -> Vec<Value> {
    let mut all = vec![objects::namespace(WORK), objects::namespace(SIDE)];
    all[0]["metadata"]["annotations"] = json!({"owner": "team-red"});
    all.extend(cluster_scoped());
    all.extend(accounts());
    all.extend(volumes());
    all.extend(services());
    all.extend(workloads());
    all.extend(policies());
    all.push(objects::config_map(SIDE, "neighbour", "a", "b"));
    all
}

fn in_work(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": WORK, "labels": {"part": "work"}}});
    if let (Some(fields), Value::Object(rest)) = (object.as_object_mut(), rest) {
        fields.extend(rest);
    }
    object
}

fn cluster_scoped() -> Vec<Value> {
    let nowhere = json!({"url": "https://127.0.0.1:9/nowhere"});
    let hook = json!([{
        "name": "check.shop.example.com", "clientConfig": nowhere, "failurePolicy": "Ignore", "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["nowhere.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}],
    }]);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    vec![
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "orders.shop.example.com"},
            "spec": {
                "group": "shop.example.com", "scope": "Namespaced", "names": {"kind": "Order", "plural": "orders", "singular": "order"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
            },
        }),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "work-first"}, "value": 500}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "work-class"}, "provisioner": "kubernetes.io/no-provisioner"}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "work-ingress"}, "spec": {"controller": "example.com/none"}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "work-validating"}, "webhooks": hook}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "work-mutating"}, "webhooks": hook}),
    ]
}

/// Accounts, their tokens, and who may do what.
fn accounts() -> Vec<Value> {
    let token = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": name, "namespace": WORK, "annotations": {"kubernetes.io/service-account.name": "worker"}},
        })
    };
    let subjects = json!([
        {"kind": "ServiceAccount", "name": "worker", "namespace": WORK},
        {"kind": "ServiceAccount", "name": "default", "namespace": SIDE},
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "somebody"},
    ]);
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    vec![
        in_work(
            "v1",
            "ServiceAccount",
            "worker",
            json!({
                "secrets": [{"name": "worker-token-abc12"}, {"name": "other"}], "imagePullSecrets": [{"name": "registry"}],
            }),
        ),
        token("worker-token-abc12"),
        token("lasting"),
        in_work("v1", "Secret", "registry", json!({"stringData": {"user": "somebody"}})),
        in_work("rbac.authorization.k8s.io/v1", "Role", "look", json!({"rules": rules})),
        in_work(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "look",
            json!({"roleRef": role("Role", "look"), "subjects": subjects}),
        ),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "work-look"}, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "work-look"},
            "roleRef": role("ClusterRole", "work-look"), "subjects": subjects,
        }),
    ]
}

/// Bound claims whose volumes are kept or thrown away with them.
fn volumes() -> Vec<Value> {
    let pair = |claim: &str, policy: &str| {
        let name = format!("work-{claim}");
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"part": "work"}},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "hostPath": {"path": "/data"},
                     "persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": WORK, "name": claim}},
        });
        let claim = in_work(
            "v1",
            "PersistentVolumeClaim",
            claim,
            json!({"spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}},
            }}),
        );
        [volume, claim]
    };
    [pair("kept", "Retain"), pair("thrown", "Delete")].concat()
}

/// Services of every sort; the node ports of some were asked for, those of others given.
fn services() -> Vec<Value> {
    let service = |name: &str, spec: Value| in_work("v1", "Service", name, json!({"spec": spec}));
    let mut remembered =
        service("remembered", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": NODE_PORT + 1}]}));
    let applied = remembered.to_string();
    remembered["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    vec![
        service("inside", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
        service("headless", json!({"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]})),
        service("elsewhere", json!({"type": "ExternalName", "externalName": "example.com"})),
        service("asked", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": NODE_PORT}]})),
        service("given", json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]})),
        service("balanced", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]})),
        remembered,
        service("manual", json!({"ports": [{"port": 80}]})),
        in_work(
            "v1",
            "Endpoints",
            "manual",
            json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
        ),
    ]
}

fn workloads() -> Vec<Value> {
    let pod = |name: &str| {
        let mut pod = objects::pod(WORK, name, "sleep 1000");
        pod["spec"]["schedulerName"] = json!("nobody");
        pod["metadata"]["labels"] = json!({"part": "work"});
        pod
    };
    let mut first = pod("first");
    first["spec"]["serviceAccountName"] = json!("worker");
    first["spec"]["priorityClassName"] = json!("work-first");
    first["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]);
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": pod(app)["spec"]});
    let mut always = template("store");
    always["spec"]["restartPolicy"] = json!("Always");
    let job = |template: Value| json!({"template": template});
    let nightly = json!({"schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": job(template("nightly"))}});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "work-class", "resources": {"requests": {"storage": "1Gi"}}}});
    let store = json!({"serviceName": "headless", "replicas": 1, "selector": {"matchLabels": {"app": "store"}}, "template": always, "volumeClaimTemplates": [claim]});
    let mut finished = job(template("finished"));
    finished["managedBy"] = json!("example.com/nobody");
    vec![
        first,
        pod("over"),
        objects::deployment(WORK, "web", 2, "sleep 1000"),
        in_work("apps/v1", "StatefulSet", "store", json!({"spec": store})),
        in_work("batch/v1", "Job", "import", json!({"spec": job(template("import"))})),
        in_work("batch/v1", "Job", "finished", json!({"spec": finished})),
        in_work("batch/v1", "CronJob", "nightly", json!({"spec": nightly})),
    ]
}

fn policies() -> Vec<Value> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let backend = json!({"service": {"name": "inside", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    vec![
        in_work(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "web",
            json!({"spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2}}),
        ),
        in_work(
            "networking.k8s.io/v1",
            "Ingress",
            "web",
            json!({"spec": {"ingressClassName": "work-ingress", "rules": [{"host": "shop.example.com", "http": {"paths": paths}}]}}),
        ),
        in_work("networking.k8s.io/v1", "NetworkPolicy", "closed", json!({"spec": {"podSelector": {}}})),
        in_work(
            "policy/v1",
            "PodDisruptionBudget",
            "web",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        ),
        in_work(
            "v1",
            "LimitRange",
            "small",
            json!({"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}}]}}),
        ),
        in_work("v1", "ResourceQuota", "wide", json!({"spec": {"hard": {"configmaps": "1000"}}})),
        in_work("v1", "ConfigMap", "fixed", json!({"immutable": true, "data": {"a": "1"}})),
        in_work(
            "v1",
            "ConfigMap",
            "settings",
            json!({"data": {"a": "<b>&\u{2028}", "b": ""}, "binaryData": {"c": "AAEC"}}),
        ),
    ]
}

fn order(name: &str, annotations: Value) -> Value {
    let mut order = in_work("shop.example.com/v1", "Order", name, json!({"spec": {"count": 3, "price": 1.5}}));
    order["metadata"]["annotations"] = annotations;
    order
}

/// States that only a node or a controller of its own would bring about.
fn statuses() -> Vec<(&'static str, &'static str, Value)> {
    let done = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": "2024-05-01T10:00:00Z", "lastTransitionTime": "2024-05-01T10:00:00Z"});
    let job = json!({
        "startTime": "2024-05-01T09:00:00Z", "completionTime": "2024-05-01T10:00:00Z", "succeeded": 1,
        "conditions": [done("SuccessCriteriaMet"), done("Complete")],
    });
    vec![
        ("pod", "over", json!({"phase": "Succeeded"})),
        ("job", "finished", job),
        ("orders.shop.example.com", "open", json!({"state": "paid"})),
        ("orders.shop.example.com", "told", json!({"state": "sent"})),
    ]
}
