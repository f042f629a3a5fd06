//! Commands against the API server of a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube::config::Kubeconfig;
use serde_json::json;
use velero_testkit::TestCluster;

/// A kubeconfig of somebody who may do nothing but these, in the namespace of the test: `verbs resources`.
pub(crate) fn with_rights(cluster: &TestCluster, folder: &Path, name: &str, rights: &[(&str, &str)]) -> PathBuf {
    let kubectl = |words: &[&str]| {
        let words: Vec<&str> = ["-n", &cluster.namespace].iter().chain(words).copied().collect();
        cluster.test_box.machine().kubectl(&words).unwrap()
    };
    kubectl(&["create", "serviceaccount", name]);
    for (position, (verbs, resources)) in rights.iter().enumerate() {
        let role = format!("{name}-{position}");
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        kubectl(&["create", "role", &role, &verbs, &resources]);
        let (role_flag, account) = (format!("--role={role}"), format!("--serviceaccount={}:{name}", cluster.namespace));
        kubectl(&["create", "rolebinding", &role, &role_flag, &account]);
    }
    let token = kubectl(&["create", "token", name]);
    let kubeconfig = Kubeconfig::read_from(cluster.test_box.kubeconfig()).unwrap();
    let mut document = serde_json::to_value(&kubeconfig).unwrap();
    for user in document["users"].as_array_mut().unwrap() {
        user["user"] = json!({"token": token.trim()});
    }
    let path = folder.join(name);
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

/// Runs a command.
pub(crate) fn velero(cluster: &TestCluster, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_velero"))
        .args(["--namespace", &cluster.namespace, "--kubeconfig"])
        .arg(cluster.test_box.kubeconfig())
        .args(arguments)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

/// The output of a command that must succeed.
#[track_caller]
pub(crate) fn said(cluster: &TestCluster, arguments: &[&str]) -> String {
    let output = velero(cluster, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that must fail.
#[track_caller]
pub(crate) fn refused(cluster: &TestCluster, arguments: &[&str]) -> String {
    let output = velero(cluster, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}
