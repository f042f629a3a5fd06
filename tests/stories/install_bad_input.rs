//! Installations that cannot succeed change nothing, and taking one back spares what is not its own.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use velero_testkit::{BoxKind, Edition, TestBox, harness};
use velero_tests::command_line::CommandLine;

/// A kubeconfig of somebody who may do nothing.
fn kubeconfig_without_rights(cli: &CommandLine<'_>) -> PathBuf {
    cli.machine.kubectl(&["-n", "default", "create", "serviceaccount", "nobody"]).unwrap();
    let token = cli.machine.kubectl(&["-n", "default", "create", "token", "nobody"]).unwrap();
    let text = cli.machine.kubectl(&["config", "view", "--raw", "-o", "json"]).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    for user in kubeconfig["users"].as_array_mut().unwrap() {
        user["user"] = json!({"token": token.trim()});
    }
    let path = cli.machine.state().join("nobody.kubeconfig");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// Gives somebody who may do nothing the rights to create everything.
fn grant_all_but_deleting(cli: &CommandLine<'_>) {
    let (rbac, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "patch"]});
    let name = json!({"name": "installers"});
    let role = json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": name, "rules": [rule]});
    let binding = json!({
        "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "installers"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": "default"}],
    });
    cli.machine.apply(&role.to_string()).unwrap();
    cli.machine.apply(&binding.to_string()).unwrap();
}

fn refuses_bad_input(cli: &CommandLine<'_>) {
    let before = cli.cluster_objects().unwrap();
    let empty = cli.machine.state().join("no-such-file").display().to_string();
    let folder = cli.machine.state().display().to_string();
    let secret = |path: &str| format!("--secret-file={path}");
    let (missing, unreadable) = (secret(&empty), secret(&folder));
    let bucket = ["--provider=aws", "--bucket=my-bucket"];
    let cases: [(&[&str], &str); 10] = [
        (&["--provider=tape", "--bucket=my-bucket", "--no-secret"], "not built in"),
        (&["--provider=aws", "--bucket=my_bucket/", "--no-secret"], "not the name of a bucket"),
        (&[bucket[0], bucket[1], &missing], "No such file"),
        (&[bucket[0], bucket[1], &unreadable], "Is a directory"),
        (&["--cacert", &empty], "No such file"),
        (&["--pod-labels=a=not a label"], "Deployment/velero is refused"),
        (&["--velero-pod-mem-request=1Gi"], "must be less than or equal to memory limit"),
        (&["--image="], "Deployment/velero is refused"),
        (&["--namespace=No_Name"], "refused"),
        (&["--backup-repository-configmap=missing"], "there is no such ConfigMap"),
    ];
    for (flags, expected) in cases {
        let said = cli.refusal(&[&["install"], flags].concat()).unwrap();
        assert!(said.contains(expected), "{flags:?}: {said}");
        assert_eq!(cli.cluster_objects().unwrap(), before, "{flags:?} left something behind");
    }
    let nobody =
        CommandLine { kubeconfig: kubeconfig_without_rights(cli), ..CommandLine::new(cli.machine, Edition::Ours) };
    let said = nobody.refusal(&["install"]).unwrap();
    assert!(said.contains("create deployments.apps") && said.contains("nothing was changed"), "{said}");
    assert_eq!(cli.cluster_objects().unwrap(), before);
    grant_all_but_deleting(cli);
    let before = cli.cluster_objects().unwrap();
    let said = nobody.refusal(&["install"]).unwrap();
    assert!(said.contains("ClusterRole/velero is refused"), "nobody can hand on more rights than they have: {said}");
    assert_eq!(cli.cluster_objects().unwrap(), before);
    refuses_what_it_may_not_finish(cli, &nobody);
    let said = cli.refusal(&["uninstall", "--force", "-n", "default"]).unwrap();
    assert!(said.contains("no Velero is installed in namespace \"default\""), "{said}");
}

/// Another Velero is not replaced halfway by somebody who may not delete it.
fn refuses_what_it_may_not_finish(cli: &CommandLine<'_>, nobody: &CommandLine<'_>) {
    cli.machine.kubectl(&["create", "namespace", "velero"]).unwrap();
    let labels = json!({"app": "other"});
    let container = json!({"name": "velero", "image": "velero/velero:v1.18.3"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "velero", "namespace": "velero"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    cli.machine.apply(&deployment.to_string()).unwrap();
    let before = cli.cluster_objects().unwrap();
    let said = nobody.refusal(&["install", "--force"]).unwrap();
    assert!(said.contains("delete deployments.apps") && said.contains("nothing was changed"), "{said}");
    assert_eq!(cli.cluster_objects().unwrap(), before);
    cli.machine.kubectl(&["delete", "namespace", "velero"]).unwrap();
}

/// A namespace that was there before stays, and so does what others put into it.
fn spares_what_is_not_its_own(cli: &CommandLine<'_>) {
    cli.machine.kubectl(&["create", "namespace", "mine"]).unwrap();
    cli.machine.kubectl(&["-n", "mine", "create", "configmap", "keep"]).unwrap();
    let before = cli.cluster_objects().unwrap();
    cli.velero(&["install", "-n", "mine", "--no-default-backup-location"]).unwrap();
    let told = cli.velero(&["uninstall", "-n", "mine", "--force"]).unwrap();
    assert!(told.contains("it was not made by the installation"), "{told}");
    assert_eq!(cli.cluster_objects().unwrap(), before, "{told}");
    cli.machine.kubectl(&["-n", "mine", "get", "configmap", "keep"]).unwrap();
    let left = cli
        .machine
        .kubectl(&[
            "-n",
            "mine",
            "get",
            "deployments,serviceaccounts,secrets,persistentvolumeclaims",
            "-l",
            "component=velero",
            "-o",
            "name",
        ])
        .unwrap();
    assert_eq!(left, "");
}

/// What flags leave out goes if the installation before made it, and stays if somebody else did.
fn takes_back_what_flags_leave_out(cli: &CommandLine<'_>) {
    let install = |flags: &[&str]| {
        cli.velero(&[&["install", "--no-default-backup-location", "--use-node-agent"], flags].concat()).unwrap()
    };
    let made = || {
        let kinds = "poddisruptionbudgets,networkpolicies";
        let listed = cli.machine.kubectl(&["-n", "velero", "get", kinds, "-o", "name"]).unwrap();
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (budget, policies) = (
        "poddisruptionbudget.policy/velero",
        ["networkpolicy.networking.k8s.io/velero", "networkpolicy.networking.k8s.io/velero-node-agent"],
    );
    install(&["--replicas=2"]);
    assert_eq!(made(), [budget, policies[0], policies[1]]);
    install(&[]);
    assert_eq!(made(), policies);
    cli.machine.kubectl(&["-n", "velero", "label", policies[1], "component-"]).unwrap();
    let told = install(&["--network-policy=false"]);
    assert_eq!(made(), [policies[1]], "{told}");
    assert!(told.contains("NetworkPolicy/velero: not wanted any more, deleted"), "{told}");
    assert!(!told.contains("stays as it was"), "{told}");
    cli.velero(&["uninstall", "--force"]).unwrap();
}

/// Node agents that flags do not speak of stay, and it is said how they are changed or removed.
fn speaks_of_node_agents_that_stay(cli: &CommandLine<'_>) {
    cli.velero(&["install", "--no-default-backup-location", "--use-node-agent"]).unwrap();
    let told = cli.velero(&["install", "--no-default-backup-location"]).unwrap();
    assert!(told.contains("DaemonSet velero/node-agent is there already and stays as it was"), "{told}");
    assert!(told.contains("kubectl -n velero delete daemonset node-agent"), "{told}");
    cli.machine.kubectl(&["-n", "velero", "delete", "daemonset", "node-agent"]).unwrap();
    let told = cli.velero(&["install", "--no-default-backup-location"]).unwrap();
    assert!(!told.contains("stays as it was"), "{told}");
    cli.velero(&["uninstall", "--force"]).unwrap();
}

/// A restore whose finalizer nobody removes does not hold the namespace up for ever.
fn gets_rid_of_finalizers(cli: &CommandLine<'_>) {
    cli.velero(&["install", "--no-default-backup-location"]).unwrap();
    let restore = json!({
        "apiVersion": "velero.io/v1", "kind": "Restore",
        "metadata": {
            "name": "stuck", "namespace": "velero",
            "finalizers": ["restores.velero.io/external-resources-finalizer"],
        },
        "spec": {"backupName": "none"},
    });
    cli.machine.apply(&restore.to_string()).unwrap();
    let told = cli.velero(&["uninstall", "--force"]).unwrap();
    assert!(told.contains("Velero uninstalled"), "{told}");
}

#[test]
fn an_installation_that_cannot_succeed_changes_nothing_and_an_end_spares_what_is_foreign() {
    TestBox::down("in-checks").unwrap();
    harness::run("in-checks", BoxKind::ControlPlane, async |cluster| {
        let cli = CommandLine::new(cluster.test_box.machine(), Edition::Ours);
        refuses_bad_input(&cli);
        spares_what_is_not_its_own(&cli);
        gets_rid_of_finalizers(&cli);
        takes_back_what_flags_leave_out(&cli);
        speaks_of_node_agents_that_stay(&cli);
    });
    TestBox::down("in-checks").unwrap();
}
