//! The box is a real cluster: pods run, names resolve, the API server and the store are in reach of a pod.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_testkit::harness::{self, SHARED_BOX};
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, TestBox, TestCluster, install, objects, whole_box_test};

/// Runs a shell command in a new pod whose log must come to hold the wanted text.
fn pod_prints(cluster: &TestCluster, name: &str, shell: &str, wanted: &str) {
    let pod = objects::pod(&cluster.namespace, name, shell).to_string();
    log_holds(cluster, name, wanted, || cluster.test_box.machine().apply(&pod).unwrap());
}

fn log_holds(cluster: &TestCluster, pod: &str, wanted: &str, start: impl FnOnce()) {
    start();
    wait_until("the pod's log", Duration::from_secs(60), || {
        let log = cluster.test_box.machine().kubectl(&["-n", &cluster.namespace, "logs", pod])?;
        ensure!(log.contains(wanted), "the log of {pod} is {log:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_deployment_runs_and_exec_and_logs_work() {
    whole_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        let deployment = objects::deployment(namespace, "web", 2, "echo hello from the log; sleep 1000");
        machine.apply(&deployment.to_string()).unwrap();
        machine.kubectl(&["-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
        let said =
            machine.kubectl(&["-n", namespace, "exec", "deployment/web", "--", "sh", "-c", "echo $((6 * 7))"]).unwrap();
        assert_eq!(said.trim(), "42");
        let log = machine.kubectl(&["-n", namespace, "logs", "deployment/web"]).unwrap();
        assert_eq!(log.trim(), "hello from the log");
    });
}

#[test]
fn a_pod_reaches_a_service_by_its_name() {
    whole_box_test(async |cluster| {
        let (machine, namespace) = (cluster.test_box.machine(), cluster.namespace.as_str());
        let server = "while true; do echo it is me | nc -l -p 8080; done";
        machine.apply(&objects::deployment(namespace, "web", 1, server).to_string()).unwrap();
        machine.apply(&objects::service(namespace, "web", 8080).to_string()).unwrap();
        machine.kubectl(&["-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
        let ask = format!("until nc web.{namespace}.svc.cluster.local 8080 < /dev/null | grep me; do sleep 0.2; done");
        pod_prints(&cluster, "client", &ask, "it is me");
    });
}

#[test]
fn a_pod_reaches_the_api_server_with_its_service_account() {
    whole_box_test(async |cluster| {
        let machine = cluster.test_box.machine();
        let tools = install::kubernetes().unwrap().display().to_string();
        let mut pod = objects::pod(&cluster.namespace, "caller", &format!("{tools}/kubectl auth whoami"));
        let folders = [tools.as_str(), "/lib", "/lib64"];
        let volume = |index: usize, folder: &str| json!({"name": format!("host{index}"), "hostPath": {"path": folder}});
        let mount =
            |index: usize, folder: &str| json!({"name": format!("host{index}"), "mountPath": folder, "readOnly": true});
        pod["spec"]["volumes"] = folders.iter().enumerate().map(|(index, folder)| volume(index, folder)).collect();
        pod["spec"]["containers"][0]["volumeMounts"] =
            folders.iter().enumerate().map(|(index, folder)| mount(index, folder)).collect();
        let wanted = format!("system:serviceaccount:{}:default", cluster.namespace);
        log_holds(&cluster, "caller", &wanted, || machine.apply(&pod.to_string()).unwrap());
    });
}

#[test]
fn a_pod_reaches_the_store() {
    whole_box_test(async |cluster| {
        let url = TestBox::store_url_for_pods();
        let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
        let ask = format!("printf 'GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' | nc {host} {port}");
        pod_prints(&cluster, "customer", &ask, "AccessDenied");
    });
}

/// Else the namespace would stay, and the controller manager would try to empty it for as long as the box is up.
#[test]
fn what_a_server_kept_goes_with_the_namespace_of_its_test() {
    let test_box = TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
    let machine = test_box.machine().clone();
    let namespace = harness::inside(test_box, async |cluster| {
        let machine = cluster.test_box.machine();
        machine.install_velero_definitions()?;
        let metadata =
            json!({"name": "kept", "namespace": cluster.namespace, "finalizers": [RESTORE_EXTERNAL_RESOURCES]});
        let restore = json!({
            "apiVersion": "velero.io/v1", "kind": "Restore", "metadata": metadata, "spec": {"backupName": "b"},
        });
        machine.apply(&restore.to_string())?;
        Ok(cluster.namespace.clone())
    })
    .unwrap();
    let restore = format!("/apis/velero.io/v1/namespaces/{namespace}/restores/kept");
    assert_eq!(machine.read_if_there(&restore).unwrap(), None);
    wait_until("the namespace to go", Duration::from_secs(60), || {
        let left = machine.read_if_there(&format!("/api/v1/namespaces/{namespace}"))?;
        ensure!(left.is_none(), "{left:?}");
        Ok(())
    })
    .unwrap();
}
