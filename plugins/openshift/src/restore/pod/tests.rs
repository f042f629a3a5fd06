use serde_json::json;

use super::*;
use crate::testing::{Expected, check, compat, mapping, merge, migration, reset, restore as restore_of, run};

fn pod(fields: &Value) -> Value {
    let annotations = json!({
        "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": "new:5000",
        "oadp.openshift.io/includes-dm-dc-fix": "true",
    });
    let mut item = json!({
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"containers": [{"name": "a", "image": "quay.io/a/b"}], "schedulingGates": [], "affinity": {"podAffinity": {}}},
    });
    merge(&mut item, fields);
    item
}

fn secrets() -> PullSecrets {
    let annotations =
        json!({"kubernetes.io/service-account.name": "default", "kubernetes.io/service-account.uid": "d"});
    let secret = |name: &str, annotations: &Value| json!({"metadata": {"name": name, "annotations": annotations}});
    let found = [secret("default-dockercfg-old", &json!(null)), secret("default-dockercfg-here", &annotations)];
    PullSecrets::new(&found, &[json!({"metadata": {"name": "default", "uid": "d"}})])
}

/// Both halves of the step, as the edge calls them.
fn act(item: &Value, work: &Restore, takes_all: bool, made: bool, settings: &Settings) -> Result<RestoreItemOutcome> {
    let secrets = secrets();
    run(item, work, |input| match decide(input)? {
        _ if stage::is_copy(work) => Ok(RestoreItemOutcome::changed(input.item, stage::mark)),
        None => Ok(RestoreItemOutcome::skipped()),
        Some(wanted) => restore(input, wanted, takes_all, made.then_some((&secrets, "shop")), settings),
    })
}

fn owner() -> Value {
    json!({"metadata": {"ownerReferences": [{"kind": "ReplicationController", "name": "web-1"}]}})
}

fn with(parts: &[Value]) -> Value {
    let mut fields = json!({});
    parts.iter().for_each(|part| merge(&mut fields, part));
    fields
}

fn volume(source: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", source: {}}]}})
}

#[test]
fn pods_that_something_makes_again_stay_out_unless_their_data_or_hooks_are_wanted() {
    let hook_annotation = json!({"metadata": {"annotations": {"post.hook.restore.velero.io/command": "x"}}});
    let hooks = |namespace: &str| json!({"spec": {"hooks": {"resources": [{"name": "h", "includedNamespaces": [namespace], "postHooks": [{"exec": {"command": ["x"]}}]}]}}});
    let bad = json!({"spec": {"hooks": {"resources": [{"name": "h", "postHooks": [{}], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "?"}]}}]}}});
    let build = json!({"metadata": {"annotations": {"openshift.io/build.name": "web-1"}}});
    let plain = json!({});
    for (row, fields, work, expected) in [
        ("no owner", plain.clone(), &plain, Expected::Same),
        ("owner", owner(), &plain, Expected::Skip),
        ("owner, claim", with(&[owner(), volume("persistentVolumeClaim")]), &plain, Expected::Same),
        ("owner, empty directory", with(&[owner(), volume("emptyDir")]), &plain, Expected::Same),
        ("owner, secret", with(&[owner(), volume("secret")]), &plain, Expected::Skip),
        (
            "owner, annotation, no hooks in the restore",
            with(&[owner(), hook_annotation.clone()]),
            &plain,
            Expected::Skip,
        ),
        ("owner, annotation", with(&[owner(), hook_annotation]), &hooks("other"), Expected::Same),
        ("owner, hook", owner(), &hooks("shop"), Expected::Same),
        ("owner, hook of another namespace", owner(), &hooks("bank"), Expected::Skip),
        ("unreadable hook", owner(), &bad, Expected::Error("hooks of restore again")),
        ("build", build.clone(), &plain, Expected::Skip),
        ("build with data", with(&[build, volume("emptyDir")]), &plain, Expected::Skip),
    ] {
        let item = pod(&fields);
        let outcome = act(&item, &restore_of(work), false, false, &Settings::default());
        check(row, &reset(&item), outcome, &expected);
    }
}

#[test]
fn a_pod_that_is_restored_is_taken_from_its_deployment_config() {
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let both = labels(json!({"deployment": "web-1", "deploymentconfig": "web", "app": "web"}));
    let one = labels(json!({"deploymentconfig": "web", "app": "web"}));
    let freed = labels(json!({"app": "web", "oadp.openshift.io/disconnected-from-dc": "again"}));
    let unknown = json!({"metadata": {"annotations": {"oadp.openshift.io/includes-dm-dc-fix": ""}}});
    let data = volume("emptyDir");
    for (row, parts, takes_all, expected) in [
        ("data", vec![both.clone(), data.clone()], false, Some(vec![freed.clone(), data.clone()])),
        ("one label", vec![one, data.clone()], false, None),
        ("nothing wanted", vec![both.clone()], true, None),
        ("old backup of all volumes", vec![both.clone(), unknown.clone()], true, Some(vec![freed, unknown.clone()])),
        ("old backup", vec![both, unknown, data], false, None),
    ] {
        let item = pod(&with(&parts));
        let outcome = act(&item, &restore_of(&json!({})), takes_all, false, &Settings::default());
        let expected = expected.map_or(Expected::Same, |parts| Expected::Item(pod(&with(&parts))));
        check(row, &item, outcome, &expected);
    }
}

#[test]
fn images_nodes_and_pull_secrets_are_those_of_the_new_cluster() {
    let image = |name: &str| json!({"spec": {"containers": [{"name": "a", "image": name}]}});
    let pulls = |name: &str| json!({"spec": {"imagePullSecrets": [{"name": "mine"}, {"name": name}]}});
    let node = json!({"spec": {"nodeSelector": {"zone": "a"}}});
    let first = compat(&[Compat::FirstPullSecret]);
    let now = Settings::default();
    for (row, before, made, settings, expected) in [
        ("node selector", node, false, &now, Some(json!({}))),
        ("image", image("old:5000/shop/web:1"), false, &now, Some(image("new:5000/store/web:1"))),
        ("external image", image("quay.io/shop/web:1"), false, &now, None),
        ("pull secret", pulls("default-dockercfg-x"), true, &now, Some(pulls("default-dockercfg-here"))),
        ("first pull secret", pulls("default-dockercfg-x"), true, &first, Some(pulls("default-dockercfg-old"))),
        ("no pull secrets here", pulls("default-dockercfg-x"), false, &now, None),
        ("own secret", pulls("other"), true, &now, None),
    ] {
        let item = pod(&before);
        let outcome = act(&item, &mapping(&json!({"shop": "store"})), false, made, settings);
        check(row, &item, outcome, &expected.map_or(Expected::Same, |fields| Expected::Item(pod(&fields))));
    }
    let missing = pod(&pulls("builder-dockercfg-x"));
    let outcome = act(&missing, &mapping(&json!({})), false, true, &now);
    check("missing", &missing, outcome, &Expected::Error("Pod shop/web: secret not found: namespace shop"));
    assert_eq!(prefixes(&missing), ["default-dockercfg-", "builder-dockercfg-"]);
}

#[test]
fn a_pod_of_a_stage_sleeps_beside_its_claims() {
    let staged = |excluded: &str| {
        pod(&json!({
            "metadata": {
                "labels": {"migration-included-stage-backup": "m-1"},
                "annotations": {"migration.openshift.io/exclude-pvcs": excluded},
            },
            "spec": {
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
                    {"name": "logs", "persistentVolumeClaim": {"claimName": "l"}},
                    {"name": "tmp", "emptyDir": {}},
                ],
                "initContainers": [{"name": "i", "image": "quay.io/i"}],
                "containers": [{"name": "a", "image": "quay.io/a", "volumeMounts": [{"name": "data"}, {"name": "logs"}, {"name": "tmp"}]}],
            },
        }))
    };
    let asleep = |excluded: &str, kept: &[&str]| {
        let mut item = staged(excluded);
        let spec = &mut item["spec"];
        let is_kept = |entry: &Value| kept.contains(&entry["name"].as_str().unwrap());
        spec["volumes"].as_array_mut().unwrap().retain(is_kept);
        let container = &mut spec["containers"][0];
        container["volumeMounts"].as_array_mut().unwrap().retain(is_kept);
        merge(container, &json!({"image": "quay.io/stage", "command": ["sleep"], "args": ["infinity"]}));
        item
    };
    let marked = |mut item: Value| {
        stage_marks(&mut item);
        Expected::Item(item)
    };
    let stage = migration(&json!({"migration.openshift.io/stage-pod-image": "quay.io/stage"}));
    let mut unlabelled = staged("");
    remove_label(&mut unlabelled, "migration-included-stage-backup");
    let (now, old_way) = (Settings::default(), compat(&[Compat::StageAffinity]));
    for (row, item, work, settings, expected) in [
        ("stage", staged(""), &stage, &now, marked(asleep("", &["data", "logs"]))),
        ("the old way", staged(""), &stage, &old_way, Expected::Item(asleep("", &["data", "logs"]))),
        ("a claim left out", staged("logs,other"), &stage, &now, marked(asleep("logs,other", &["data"]))),
        ("no image", staged(""), &migration(&json!({})), &now, Expected::Same),
        ("no label", unlabelled, &stage, &now, Expected::Same),
    ] {
        check(row, &item, act(&item, &restore_of(work), false, false, settings), &expected);
    }
}

/// What a pod of a stage is known by.
fn stage_marks(item: &mut Value) {
    remove(item, "/spec", "nodeSelector");
    remove(item, "/spec", "affinity");
    item["metadata"]["labels"]["migration-stage-pod"] = json!("true");
    item["metadata"]["annotations"]["openshift.io/migrate-copy-phase"] = json!("true");
}

#[test]
fn a_pod_of_a_copy_stage_is_marked_and_runs_on_any_node_whoever_owns_it() {
    let phase = json!({"openshift.io/migrate-copy-phase": "stage"});
    let node = json!({"spec": {"nodeSelector": {"zone": "a"}}});
    let image = json!({"spec": {"containers": [{"name": "a", "image": "old:5000/shop/web:1"}]}});
    let no_migration = json!({"metadata": {"annotations": phase}});
    for (row, fields, work, is_marked) in [
        ("bare", node.clone(), migration(&phase), true),
        ("owned", with(&[owner(), node]), migration(&phase), true),
        ("images stay", image, migration(&phase), true),
        ("another phase", json!({}), migration(&json!({"openshift.io/migrate-copy-phase": "final"})), false),
        ("no migration", json!({}), no_migration, false),
    ] {
        let item = pod(&fields);
        let outcome = act(&item, &restore_of(&work), false, false, &Settings::default());
        let mut expected = reset(&item);
        if is_marked {
            stage_marks(&mut expected);
        }
        check(row, &reset(&item), outcome, &Expected::Item(expected));
    }
}

#[test]
fn a_pod_of_a_stage_whose_containers_are_none_is_left_to_the_api_server() {
    let stage = migration(&json!({"migration.openshift.io/stage-pod-image": "quay.io/stage"}));
    let labels = json!({"migration-included-stage-backup": "m-1"});
    let mut item =
        json!({"kind": "Pod", "metadata": {"name": "web", "labels": labels}, "spec": {"containers": ["x", 7, []]}});
    stage::adapt(&mut item, &restore_of(&stage), &Settings::default());
    assert_eq!(item["spec"]["containers"], json!(["x", 7, []]));
}
