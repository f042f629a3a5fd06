//! `velero report` on a week that was simulated: objects as servers leave them, and a report that equals what was done.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupStorageLocation, PodVolumeBackup, Restore, Schedule};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{said, velero, with_rights};

async fn create<K: VeleroResource>(cluster: &TestCluster, name: &str, labelled: Value, rest: Value) {
    let mut object = json!({
        "apiVersion": K::api_version_text(), "kind": K::KIND,
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": labelled},
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A namespace with a claim.
async fn namespace(cluster: &TestCluster, purpose: &str) -> String {
    let name = unique_name(purpose);
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &object).await.unwrap();
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))
    .unwrap();
    Api::namespaced(cluster.client.clone(), &name).create(&PostParams::default(), &claim).await.unwrap();
    name
}

fn text(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// One backup of a day: begun so many days before the last run, and ended as said.
async fn backup(cluster: &TestCluster, shop: &str, last: Timestamp, day: i64, phase: &str) -> String {
    let began = last - SignedDuration::from_hours(24 * day);
    let name = format!("daily-{}", began.strftime("%Y%m%d%H%M%S"));
    let items = 100 + (7 - day) * 10;
    let mut status = json!({
        "phase": phase, "startTimestamp": text(began), "completionTimestamp": text(began + SignedDuration::from_secs(60)),
        "progress": {"totalItems": items, "itemsBackedUp": items},
    });
    match phase {
        "Failed" => status["failureReason"] = json!("the store did not answer"),
        "PartiallyFailed" => status["errors"] = json!(3),
        _ => {}
    }
    let labelled = json!({labels::SCHEDULE_NAME: "daily"});
    create::<Backup>(cluster, &name, labelled, json!({"spec": {"includedNamespaces": [shop]}, "status": status})).await;
    let copy = json!({
        "spec": {
            "pod": {"namespace": shop, "name": "web"}, "volume": "data", "node": "n", "backupStorageLocation": "default",
            "repoIdentifier": "", "snapshotID": "", "sourceNamespace": shop,
        },
        "status": {"phase": "Completed", "progress": {"bytesDone": 1 << 20, "totalBytes": 1 << 20}},
    });
    create::<PodVolumeBackup>(cluster, &name, json!({labels::BACKUP_NAME: name}), copy).await;
    name
}

/// A week: one schedule that ran seven times, of which one failed, one ended with errors and one was missed; one that is
/// paused; a namespace that nobody thought of.
async fn week(cluster: &TestCluster, shop: &str, yard: &str, last: Timestamp) {
    cluster.test_box.machine().install_velero_definitions().unwrap();
    let location = json!({
        "spec": {"provider": "fs", "objectStorage": {"bucket": "b"}, "default": true},
        "status": {"phase": "Unavailable", "message": "the folder <b> is not there"},
    });
    create::<BackupStorageLocation>(cluster, "default", json!({}), location).await;
    let template = json!({"includedNamespaces": [shop]});
    let daily = json!({"spec": {"schedule": last.strftime("0 %-H * * *").to_string(), "template": template}, "status": {"phase": "Enabled"}});
    create::<Schedule>(cluster, "daily", json!({}), daily).await;
    let template = json!({"includedNamespaces": [yard]});
    let paused = json!({"spec": {"schedule": "@every 1h", "template": template, "paused": true}});
    create::<Schedule>(cluster, "resting", json!({}), paused).await;
    for (day, phase) in
        [(6, "Completed"), (5, "Completed"), (4, "Failed"), (3, "PartiallyFailed"), (1, "Completed"), (0, "Completed")]
    {
        backup(cluster, shop, last, day, phase).await;
    }
    backup(cluster, shop, last, 40, "Completed").await;
    let restore = json!({"spec": {"backupName": "b"}, "status": {
        "phase": "Completed", "startTimestamp": text(last), "completionTimestamp": text(last)}});
    create::<Restore>(cluster, "back", json!({}), restore).await;
}

/// The last run of the schedule: two to three hours ago, so that the week has seven runs and none is of just now.
fn last_run() -> Timestamp {
    let seconds = (Timestamp::now() - SignedDuration::from_hours(2)).as_second();
    Timestamp::from_second(seconds - seconds % 3600).unwrap()
}

#[test]
fn the_report_of_a_simulated_week_equals_what_was_done() {
    cluster_test(|cluster| async move {
        let (shop, yard) = (namespace(&cluster, "shop").await, namespace(&cluster, "yard").await);
        week(&cluster, &shop, &yard, last_run()).await;
        let report: Value = serde_json::from_str(&said(&cluster, &["report", "-o", "json"])).unwrap();
        let summary = &report["summary"];
        for (field, expected) in [
            ("backups", 6),
            ("completed", 4),
            ("partiallyFailed", 1),
            ("failed", 1),
            ("unfinished", 0),
            ("runsExpected", 7),
            ("runsMissed", 1),
            ("runsSkipped", 0),
            ("restores", 1),
            ("restoresCompleted", 1),
            // All but the failed one: 100 and ten more a day, for the days 6, 5, 3, 1 and 0 ago.
            ("items", 5 * 100 + 10 + 20 + 40 + 60 + 70),
            ("bytes", 5 << 20),
        ] {
            assert_eq!(summary[field], expected, "{field}: {summary}");
        }
        let daily = &report["schedules"][0];
        assert_eq!(daily["history"].as_array().unwrap().len(), 4, "{daily}");
        assert_eq!((&report["schedules"][1]["paused"], &report["schedules"][1]["missed"]), (&json!(true), &json!(0)));
        let failures: Vec<&str> =
            report["failures"].as_array().unwrap().iter().filter_map(|row| row["phase"].as_str()).collect();
        assert_eq!(failures, ["PartiallyFailed", "Failed"], "newest first");
        let row = |name: &str| {
            let rows = report["namespaces"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {rows:?}")).clone()
        };
        assert_eq!(row(&shop)["schedules"], json!(["daily"]));
        // The backups of the week were begun before its namespace was made, as after a restore into a new cluster.
        assert!(row(&shop)["lastGood"].is_null(), "{}", row(&shop));
        assert_eq!(row(&yard)["schedules"], json!([]), "its schedule is paused");
        let claims = report["claimsNotCovered"].as_array().unwrap();
        assert!(claims.iter().any(|claim| claim["namespace"] == yard.as_str()), "{claims:?}");
        assert!(claims.iter().all(|claim| claim["namespace"] != shop.as_str()), "{claims:?}");
        assert_eq!(report["notSeen"], json!([]));

        let longer: Value = serde_json::from_str(&said(&cluster, &["report", "--since", "60d", "-o", "json"])).unwrap();
        assert_eq!(longer["summary"]["backups"], 7);
        let table = said(&cluster, &["report"]);
        for words in ["Something needs attention.", "1 missed", "the store did not answer", &yard, "110 -> 170"] {
            assert!(table.contains(words), "{words:?} is missing in\n{table}");
        }
        let page = said(&cluster, &["report", "-o", "html"]);
        assert!(page.contains("the folder &lt;b&gt; is not there") && !page.contains("<script"), "{page}");
        let refused = velero(&cluster, &["report", "--since", "soon"]);
        assert!(
            !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("write 7d"),
            "{refused:?}"
        );
    });
}

#[test]
fn who_may_read_backups_only_gets_those_and_is_told_what_is_missing() {
    cluster_test(|cluster| async move {
        let (shop, yard) = (namespace(&cluster, "shop").await, namespace(&cluster, "yard").await);
        week(&cluster, &shop, &yard, last_run()).await;
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = with_rights(&cluster, folder.path(), "auditor", &[("list", "backups.velero.io")]);
        let run = |form: &str| {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_velero"))
                .args(["--namespace", &cluster.namespace, "--kubeconfig"])
                .arg(&kubeconfig)
                .args(["report", "-o", form])
                .env("HOME", "/nonexistent")
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let report: Value = serde_json::from_str(&run("json")).unwrap();
        assert_eq!((&report["summary"]["backups"], &report["summary"]["namespaces"]), (&json!(6), &Value::Null));
        let missing = report["notSeen"].to_string();
        for kind in ["restores.velero.io", "schedules.velero.io", "namespaces", "persistentvolumeclaims"] {
            assert!(missing.contains(&format!("{kind}: you may not list them")), "{missing}");
        }
        let table = run("table");
        assert!(table.contains("Not seen, so that the report says nothing about it:"), "{table}");
        assert!(!table.contains("covered by no schedule"), "{table}");
        assert!(run("html").contains("What could not be seen"));
    });
}
