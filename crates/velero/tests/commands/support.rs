//! Commands against the API server of a test.

use std::process::{Command, Output};

use velero_testkit::TestCluster;

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
