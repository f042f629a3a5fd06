//! What a real shell offers behind the tab key: the names of objects that are there.

use std::process::Command;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::PostParams;
use velero_api::v1::{Backup, Schedule};
use velero_testkit::{TestCluster, cluster_test};

use crate::support::said;

/// What bash offers for the last word of a line.
fn offered(cluster: &TestCluster, line: &[&str]) -> Vec<String> {
    let script = "source <(\"$1\" completion bash); shift; COMP_WORDS=(velero \"$@\"); COMP_CWORD=$#; COMP_TYPE=9
_clap_complete_velero velero \"${COMP_WORDS[$COMP_CWORD]}\" \"${COMP_WORDS[$COMP_CWORD-1]}\"
printf '%s\\n' \"${COMPREPLY[@]}\"";
    let kubeconfig = cluster.test_box.kubeconfig().display().to_string();
    let output = Command::new("bash")
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_velero")])
        .args(["--kubeconfig", &kubeconfig, "-n", &cluster.namespace])
        .args(line)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut words: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    words.retain(|word| !word.starts_with('-') && !word.is_empty());
    words.sort_unstable();
    words
}

#[test]
fn a_shell_completes_the_names_of_objects_that_are_there() {
    cluster_test(async |cluster: TestCluster| {
        said(&cluster, &["install", "--crds-only"]);
        let backups: Api<Backup> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        for name in ["daily-1", "daily-2", "weekly-1"] {
            let backup = Backup::new(&cluster.namespace, name, Default::default());
            backups.create(&PostParams::default(), &backup).await.unwrap();
        }
        let schedules: Api<Schedule> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let schedule = Schedule::new(&cluster.namespace, "daily", Default::default());
        schedules.create(&PostParams::default(), &schedule).await.unwrap();
        for (line, expected) in [
            (&["backup", "describe", ""][..], &["daily-1", "daily-2", "weekly-1"][..]),
            (&["backup", "logs", "da"], &["daily-1", "daily-2"]),
            (&["backup", "delete", "daily-1", "da"], &["daily-2"]),
            (&["get", "backups", "w"], &["weekly-1"]),
            (&["restore", "create", "--from-backup", "w"], &["weekly-1"]),
            (&["restore", "create", "--from-schedule", ""], &["daily"]),
            (&["schedule", "pause", ""], &["daily"]),
            (&["restore", "create", "weekly-1", "--from-backup", "w"], &["weekly-1"]),
            (&["backup", "create", "kube-system", "--include-namespaces", "kube-s"], &["kube-system"]),
            (&["backup", "create", "--include-namespaces", "kube-public,kube-s"], &["kube-public,kube-system"]),
            (&["backup", "create", "--include-namespaces", "kube-system,kube-s"], &[]),
            (&["backup", "create", "da"], &[]),
            (&["sched"], &["schedule"]),
        ] {
            assert_eq!(offered(&cluster, line), expected, "{line:?}");
        }
        let before = (0..500).map(|number| {
            let schedule = Schedule::new(&cluster.namespace, &format!("a-{number:03}"), Default::default());
            let schedules = schedules.clone();
            async move { schedules.create(&PostParams::default(), &schedule).await }
        });
        let made: Vec<Schedule> = stream::iter(before).buffer_unordered(20).try_collect().await.unwrap();
        assert_eq!(made.len(), 500);
        assert_eq!(offered(&cluster, &["schedule", "pause", "da"]), ["daily"], "it is on the second page");
    });
}
