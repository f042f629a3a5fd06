//! A run full of secrets, each with a mark, and with the server as talkative as it can be: no log, Event, status, description, debug
//! bundle, report, page, trace or metric has one of them. And the log in JSON says what each line is about.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::WORKLOAD_IMAGE;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, load, objects};
use velero_tests::otlp_receiver::{self, OtlpReceiver};
use velero_tests::{backups, restores, said};

const BOX: &str = "secretive";
const SHOP: &str = "shop";
const NAMESPACE: &str = "velero-secretive";
const PATIENCE: Duration = Duration::from_secs(180);

/// Secrets, each of which can be told from all other text.
struct Marks {
    run: String,
    made: Vec<String>,
}

impl Marks {
    fn next(&mut self) -> String {
        let mark = format!("MARKED{:02}{}", self.made.len(), self.run);
        self.made.push(mark.clone());
        mark
    }
}

fn secret(namespace: &str, name: &str, kind: &str, data: &[(&str, String)]) -> Value {
    let data: serde_json::Map<_, _> = data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": data})
}

/// What an application has: plain secrets, one for a registry, one in a pod with hooks, which fail.
fn application(marks: &mut Marks) -> Vec<Value> {
    let mut all = vec![objects::namespace(SHOP)];
    for number in 0..8 {
        all.push(secret(SHOP, &format!("plain-{number}"), "Opaque", &[("password", marks.next())]));
    }
    let registry = json!({"auths": {"registry.example.com": {"username": "u", "password": marks.next()}}});
    all.push(secret(SHOP, "pull", "kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", registry.to_string())]));
    let basic = [("username", "u".to_owned()), ("password", marks.next())];
    all.push(secret(SHOP, "basic", "kubernetes.io/basic-auth", &basic));
    let shell = |command: &str| json!(["sh", "-c", command]).to_string();
    all.push(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": SHOP, "annotations": {
            "pre.hook.backup.velero.io/command": shell("test -n \"$OF_SECRET\" && test -n \"$PLAIN\""),
            "post.hook.backup.velero.io/command": shell("test -z \"$OF_SECRET$PLAIN\""),
            "post.hook.backup.velero.io/on-error": "Continue",
        }},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "100000"],
                "env": [
                    {"name": "OF_SECRET", "valueFrom": {"secretKeyRef": {"name": "plain-0", "key": "password"}}},
                    {"name": "PLAIN", "value": marks.next()},
                ],
            }],
        },
    }));
    all
}

/// Locations whose credentials are wrong in ways that a store, or whoever reads them, complains about.
fn broken_locations(marks: &mut Marks) -> Vec<Value> {
    let gcp = json!({"type": "service_account", "private_key": marks.next(), "client_email": "a@b", "private_key_id": marks.next()});
    let keys = |secret: String| format!("[default]\naws_access_key_id=wrong\naws_secret_access_key={secret}\n");
    let credentials = [
        ("aws", "refused", keys(marks.next())),
        ("aws", "spoiled", format!("[default\naws_secret_access_key {}\n", marks.next())),
        ("aws", "broken", format!("aws_secret_access_key={}\r\n\r\n", marks.next())),
        ("gcp", "gcp", gcp.to_string()),
        ("gcp", "gcp-spoiled", format!("{{\"private_key\": {}", marks.next())),
        ("azure", "azure", format!("AZURE_CLIENT_SECRET={}\nAZURE_TENANT_ID=t\nAZURE_CLIENT_ID=c\n", marks.next())),
        ("azure", "azure-key", format!("AZURE_STORAGE_ACCOUNT_ACCESS_KEY={}\n", marks.next())),
    ];
    let mut all = Vec::new();
    for (provider, name, content) in credentials {
        all.push(secret(NAMESPACE, name, "Opaque", &[("cloud", content)]));
        let config = match provider {
            "aws" => json!({"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": TestBox::store_url()}),
            "azure" => {
                json!({"storageAccount": "nobody", "storageAccountKeyEnvVar": "AZURE_STORAGE_ACCOUNT_ACCESS_KEY"})
            }
            _ => json!({}),
        };
        all.push(json!({
            "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "provider": provider, "objectStorage": {"bucket": "nothing"}, "config": config,
                "credential": {"name": name, "key": "cloud"},
            },
        }));
    }
    all
}

fn work(server: &VeleroServer) {
    wait_until("all locations to be looked at", PATIENCE, || {
        let locations = server.machine().items(&server.path("backupstoragelocations"))?;
        for location in &locations {
            let phase = &location["status"]["phase"];
            anyhow::ensure!(phase.is_string(), "{}: {phase}", location["metadata"]["name"]);
        }
        anyhow::ensure!(locations.len() == 8, "{} locations", locations.len());
        Ok(())
    })
    .unwrap();
    let metadata = json!({"name": "nightly", "namespace": NAMESPACE});
    let spec = json!({"schedule": "@daily", "paused": true, "template": {"includedNamespaces": [SHOP]}});
    let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": metadata, "spec": spec});
    server.machine().apply(&schedule.to_string()).unwrap();
    backups::create(server, "whole", &json!({"includedNamespaces": [SHOP]})).unwrap();
    let ended = backups::ended(server, "whole", PATIENCE).unwrap();
    assert_eq!(ended["status"]["phase"], "PartiallyFailed", "the hook after it fails: {}", ended["status"]);
    backups::create(server, "astray", &json!({"storageLocation": "refused"})).unwrap();
    backups::ended(server, "astray", PATIENCE).unwrap();
    // Once into another namespace, and once over what is there and differs.
    let elsewhere = json!({"backupName": "whole", "namespaceMapping": {SHOP: "shop-2"}});
    restores::create(server, "back", &elsewhere).unwrap();
    restores::ended(server, "back", PATIENCE).unwrap();
    let change = json!({"metadata": {"labels": {"changed": "yes"}}}).to_string();
    server.machine().kubectl(&["-n", SHOP, "patch", "secret", "plain-1", "--type=merge", "-p", &change]).unwrap();
    let over = json!({"backupName": "whole", "existingResourcePolicy": "update"});
    restores::create(server, "over", &over).unwrap();
    restores::ended(server, "over", PATIENCE).unwrap();
}

/// The log in JSON: each line is an object, and names what it is about.
fn lines_say_what_they_are_about(server: &VeleroServer) {
    let log = fs::read_to_string(server.log()).unwrap();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.len() * 10 > log.lines().count() * 9, "most lines are JSON:\n{log}");
    let has =
        |fields: &[(&str, &str)]| lines.iter().any(|line| fields.iter().all(|(name, value)| line[*name] == *value));
    assert!(has(&[("backup", "whole"), ("controller", "backup"), ("item", "pods/shop/web")]), "{log}");
    assert!(has(&[("backup", "whole"), ("controller", "backup"), ("msg", "Backup ended")]), "{log}");
    assert!(has(&[("restore", "back"), ("controller", "restore")]), "{log}");
    let levels: BTreeSet<_> = lines.iter().filter_map(|line| line["level"].as_str()).collect();
    assert!(["info", "warning", "error"].iter().all(|level| levels.contains(level)), "{levels:?}");
}

#[test]
fn twenty_marked_secrets_are_told_nowhere() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::Whole, async |cluster| {
        let mut marks = Marks { run: format!("x{}x", std::process::id()), made: Vec::new() };
        let objects = [application(&mut marks), broken_locations(&mut marks)].concat();
        let machine = cluster.test_box.machine();
        machine.apply(&velero_testkit::objects::namespace(NAMESPACE).to_string()).unwrap();
        let password = [("repository-password", marks.next())];
        machine.apply(&secret(NAMESPACE, "velero-repo-credentials", "Opaque", &password).to_string()).unwrap();
        assert!(marks.made.len() >= 20, "{}", marks.made.len());
        let receiver = OtlpReceiver::start(machine).unwrap();
        let flags = ["--log-level=trace", "--log-format=json", "--store-validation-frequency=5s"];
        let flags = flags.map(str::to_owned).into_iter().chain(said::flags()).chain([otlp_receiver::flag()]);
        let options = ServerOptions {
            namespace: NAMESPACE.to_owned(),
            prefix: harness::unique_name("secretive"),
            flags: flags.collect(),
            ..ServerOptions::default()
        };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        load::create_all(&cluster.client, objects.into_iter()).await.unwrap();
        machine.kubectl(&["-n", SHOP, "wait", "--for=condition=Ready", "--timeout=120s", "pod/web"]).unwrap();
        work(&server);
        lines_say_what_they_are_about(&server);
        let mut told = said::everything(&server, &["whole", "astray"], &["back", "over"]).unwrap();
        // What waits for the collector comes when the server ends.
        server.stop().unwrap();
        told.push(("traces".to_owned(), receiver.text().unwrap()));
        for (place, text) in told {
            assert!(!text.is_empty(), "{place} says nothing");
            for mark in &marks.made {
                assert!(!text.contains(mark.as_str()), "{place} tells the secret {mark}:\n{text}");
            }
        }
    });
    TestBox::down(BOX).unwrap();
}
