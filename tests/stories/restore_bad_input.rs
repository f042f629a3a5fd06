//! Damaged or hostile archives are refused before anything is written; a cluster that refuses some items gets the rest.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{ACCESS_KEY, BUCKET, SECRET_KEY};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::audit::AuditLog;
use velero_tests::restores::{self, Ending};
use velero_tests::{backups, fixture};

/// The entries our server allows in an archive here: writing the millions that it allows by default takes minutes.
const MOST_ENTRIES: usize = 10_000;

/// A way to spoil an archive. `words` are in the reason.
struct Spoilt {
    name: &'static str,
    words: &'static str,
    make: fn(&[u8], &Path),
}

type Archive = Builder<GzEncoder<fs::File>>;

fn archive(path: &Path) -> Archive {
    Builder::new(GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast()))
}

/// Adds an entry under a name that no well-behaved program would write.
fn add(archive: &mut Archive, name: &str, kind: EntryType, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    if kind == EntryType::Symlink {
        header.as_old_mut().linkname[..11].copy_from_slice(b"/etc/passwd");
    }
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

/// An archive with what is in every one, and then the entries that `more` adds.
fn good_until(path: &Path, more: impl FnOnce(&mut Archive)) {
    let mut archive = archive(path);
    add(&mut archive, "metadata/version", EntryType::Regular, b"1.1.0\n");
    let map = objects::config_map("hostile", "from-a-bad-archive", "a", "b").to_string();
    let name = "resources/configmaps/namespaces/hostile/from-a-bad-archive.json";
    add(&mut archive, name, EntryType::Regular, map.as_bytes());
    more(&mut archive);
    archive.into_inner().unwrap().finish().unwrap();
}

fn spoilt() -> Vec<Spoilt> {
    vec![
        Spoilt {
            name: "truncated",
            words: "damaged or cut short",
            make: |good, path| fs::write(path, &good[..good.len() / 2]).unwrap(),
        },
        // What a bit in the middle means for the entries is a matter of chance; one in the checksum changes none.
        Spoilt { name: "flipped", words: "cannot be restored", make: |good, path| flip(good, good.len() / 2, path) },
        Spoilt { name: "checksum", words: "damaged", make: |good, path| flip(good, good.len() - 8, path) },
        Spoilt { name: "no-gzip", words: "gzip", make: |_, path| fs::write(path, "not an archive").unwrap() },
        Spoilt { name: "nothing", words: "cut short", make: |_, path| fs::write(path, "").unwrap() },
        Spoilt {
            name: "foreign",
            words: "home/somebody/letter.txt",
            make: |_, path| {
                let mut archive = archive(path);
                add(&mut archive, "home/somebody/letter.txt", EntryType::Regular, b"dear");
                archive.into_inner().unwrap().finish().unwrap();
            },
        },
        Spoilt {
            name: "upwards",
            words: "..",
            make: |_, path| {
                let name = "resources/configmaps/namespaces/../../../../etc/passwd";
                good_until(path, |archive| add(archive, name, EntryType::Regular, b"{}"));
            },
        },
        Spoilt {
            name: "absolute",
            words: "/etc/passwd",
            make: |_, path| good_until(path, |archive| add(archive, "/etc/passwd", EntryType::Regular, b"{}")),
        },
        Spoilt {
            name: "link",
            words: "link",
            make: |_, path| {
                let name = "resources/configmaps/namespaces/hostile/link.json";
                good_until(path, |archive| add(archive, name, EntryType::Symlink, b""));
            },
        },
        Spoilt {
            name: "too-many",
            words: "entries",
            make: |_, path| {
                good_until(path, |archive| {
                    for index in 0..MOST_ENTRIES {
                        let name = format!("resources/configmaps/namespaces/hostile/m-{index}.json");
                        add(archive, &name, EntryType::Regular, b"");
                    }
                });
            },
        },
        Spoilt { name: "bomb", words: "bytes", make: |_, path| bomb(path) },
    ]
}

fn flip(good: &[u8], place: usize, path: &Path) {
    let mut bad = good.to_vec();
    bad[place] ^= 0x10;
    fs::write(path, bad).unwrap();
}

/// 10 GiB of zeros in one entry; about 10 MiB when compressed well.
fn bomb(path: &Path) {
    let mut archive = Builder::new(GzEncoder::new(fs::File::create(path).unwrap(), Compression::best()));
    add(&mut archive, "metadata/version", EntryType::Regular, b"1.1.0\n");
    let map = objects::config_map("hostile", "from-a-bad-archive", "a", "b").to_string();
    let name = "resources/configmaps/namespaces/hostile/from-a-bad-archive.json";
    add(&mut archive, name, EntryType::Regular, map.as_bytes());
    let mut header = Header::new_gnu();
    header.set_path("resources/configmaps/namespaces/hostile/large.json").unwrap();
    header.set_size(10 << 30);
    header.set_cksum();
    let zeros = vec![0_u8; 1 << 20];
    archive.get_mut().write_all(header.as_bytes()).unwrap();
    for _ in 0..10 << 10 {
        archive.get_mut().write_all(&zeros).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
}

/// Puts a file into the bucket over what is there.
fn put(machine: &Machine, key: &str, file: &Path) {
    let url = format!("{}/{BUCKET}/{key}", TestBox::store_url_for_pods());
    let keys = format!("{ACCESS_KEY}:{SECRET_KEY}");
    let file = file.display().to_string();
    let arguments = [
        "--silent",
        "--show-error",
        "--fail",
        "--aws-sigv4",
        "aws:amz:us-east-1:s3",
        "--user",
        &keys,
        "--header",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD",
        "--upload-file",
        &file,
        &url,
    ];
    machine.run("curl", arguments).unwrap();
}

fn start(cluster: &TestCluster, edition: Edition, namespace: &str, prefix: &str) -> VeleroServer {
    let mut flags = vec!["--terminating-resource-timeout=5s".into(), "--backup-sync-period=2s".into()];
    if edition == Edition::Ours {
        flags.push(format!("--max-archive-entries={MOST_ENTRIES}"));
    }
    let options =
        ServerOptions { prefix: prefix.into(), namespace: namespace.into(), flags, ..ServerOptions::default() };
    VeleroServer::up(&cluster.test_box, edition, options).unwrap()
}

fn back_up(server: &VeleroServer, name: &str, spec: &Value) {
    backups::create(server, name, spec).unwrap();
    let backup = backups::ended(server, name, Duration::from_secs(120)).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
}

/// What the server wrote that is not its own.
fn writes(log: &AuditLog) -> Vec<String> {
    let requests = log.requests_of("velero-server").unwrap();
    let foreign = requests.into_iter().filter(|request| !request.is_own_of("velero"));
    foreign
        .map(|request| format!("{} {} {}/{}", request.verb, request.resource, request.namespace, request.name))
        .collect()
}

#[test]
fn a_spoilt_archive_is_refused_and_nothing_is_written() {
    TestBox::down("bad-archives").unwrap();
    harness::run("bad-archives", BoxKind::ControlPlane, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, fixture::objects().into_iter()).await.unwrap();
        let prefix = harness::unique_name("bad-archives");
        let peer = start(&cluster, Edition::Peer, "velero-peer", &prefix);
        let all = spoilt();
        for spoilt in &all {
            back_up(&peer, spoilt.name, &json!({"includedNamespaces": ["alpha"]}));
        }
        peer.stop().unwrap();
        let ours = start(&cluster, Edition::Ours, "velero", &prefix);
        let mut wrong = Vec::new();
        for spoilt in &all {
            restores::wait_for_backup(&ours, spoilt.name).unwrap();
            let key = format!("{prefix}/backups/{0}/{0}.tar.gz", spoilt.name);
            let good = backups::object(machine, BUCKET, &key).unwrap().unwrap();
            let file: PathBuf = machine.folder("spoilt").unwrap().join(spoilt.name);
            (spoilt.make)(&good, &file);
            put(machine, &key, &file);
            fs::remove_file(&file).unwrap();

            let log = AuditLog::from_now(machine).unwrap();
            let spec = json!({"backupName": spoilt.name, "namespaceMapping": {"alpha": "hostile"}});
            restores::create(&ours, spoilt.name, &spec).unwrap();
            let status = restores::ended(&ours, spoilt.name, Duration::from_secs(240)).unwrap()["status"].clone();
            let reason = status["failureReason"].as_str().unwrap_or_default();
            println!("{}: {} {reason}", spoilt.name, status["phase"]);
            if status["phase"] != "Failed" || !reason.contains(spoilt.words) {
                wrong.push(format!("{}: {status} does not say {:?}", spoilt.name, spoilt.words));
            }
            wrong.extend(writes(&log).into_iter().map(|write| format!("{}: {write}", spoilt.name)));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
    TestBox::down("bad-archives").unwrap();
}

/// A namespace in which nothing named `no-…` may be made, and whose webhook for Secrets does not answer.
fn refusals(namespace: &str) -> Vec<Value> {
    let name = format!("refuse-{namespace}");
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let rule = |resource: &str| json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]);
    vec![
        objects::namespace(namespace),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rule("configmaps")},
                     "validations": [{"expression": "!object.metadata.name.startsWith('no-')", "message": "that name is not wanted here"}]},
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": here}},
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": [{"name": "nowhere.example.com", "clientConfig": {"url": "https://127.0.0.1:9/nowhere"}, "failurePolicy": "Fail",
                "sideEffects": "None", "timeoutSeconds": 1, "admissionReviewVersions": ["v1"], "namespaceSelector": here, "rules": rule("secrets")}],
        }),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full", "namespace": namespace}, "spec": {"hard": {"services": "0"}}}),
    ]
}

/// What is backed up: objects that pass and objects that are refused, in a namespace, and others in a second one.
fn refused_objects() -> Vec<Value> {
    let map = |name: &str| objects::config_map("refused", name, "a", "b");
    let mut all = vec![objects::namespace("refused"), objects::namespace("untouched")];
    all.extend(["yes-1", "no-1", "no-2", "yes-2"].map(map));
    all.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unheard", "namespace": "refused"}}));
    all.push(objects::service("refused", "over-quota", 80));
    all.push(objects::deployment("refused", "web", 0, "sleep 1"));
    all.push(objects::config_map("untouched", "plain", "a", "b"));
    all.push(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gones.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Gone", "plural": "gones", "singular": "gone"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }));
    all.push(
        json!({"apiVersion": "example.com/v1", "kind": "Gone", "metadata": {"name": "one", "namespace": "refused"}}),
    );
    all
}

/// A namespace that never goes: something in it holds it.
fn stuck(machine: &Machine, name: &str) {
    machine.apply(&objects::namespace(name).to_string()).unwrap();
    let mut holder = objects::config_map(name, "holder", "a", "b");
    holder["metadata"]["finalizers"] = json!(["example.com/hold"]);
    machine.apply(&holder.to_string()).unwrap();
    machine.kubectl(&["delete", "namespace", name, "--wait=false"]).unwrap();
}

/// Restores into a namespace that refuses some, and one that is stuck; gives what it came to under the same names.
fn restore_into_refusals(machine: &Machine, server: &VeleroServer, prefix: &str, mark: &str) -> Vec<Ending> {
    let (refusing, held, free) = (format!("refusing-{mark}"), format!("held-{mark}"), format!("free-{mark}"));
    for object in refusals(&refusing) {
        machine.apply(&object.to_string()).unwrap();
    }
    wait_until("the quota to be counted", Duration::from_secs(20), || {
        let quota = machine.read(&format!("/api/v1/namespaces/{refusing}/resourcequotas/full"))?;
        anyhow::ensure!(quota["status"]["hard"]["services"] == "0", "not counted yet");
        Ok(())
    })
    .unwrap();
    wait_until("the policy to be in force", Duration::from_secs(20), || {
        let made = machine.kubectl(&["-n", &refusing, "create", "configmap", "no-trial", "--dry-run=server"]);
        anyhow::ensure!(made.is_err(), "not refused yet");
        Ok(())
    })
    .unwrap();
    stuck(machine, &held);
    let mappings = [
        json!({"refused": refusing, "untouched": free}),
        json!({"refused": format!("open-{mark}"), "untouched": held}),
    ];
    let endings = mappings.iter().enumerate().map(|(index, mapping)| {
        let name = format!("refused-{mark}-{index}");
        let spec = json!({"backupName": "refused", "includeClusterResources": false, "namespaceMapping": mapping});
        without_mark(&restores::run(server, prefix, &name, &spec).unwrap(), mark)
    });
    endings.collect()
}

/// The same, with namespaces and restores under names that do not say whose they are.
fn without_mark(ending: &Ending, mark: &str) -> Ending {
    let plain = |text: &str| text.replace(&format!("-{mark}"), "");
    Ending {
        status: ending.status.clone(),
        messages: ending
            .messages
            .iter()
            .map(|(place, texts)| (plain(place), texts.iter().map(|text| plain(text)).collect()))
            .collect(),
        items: ending.items.iter().map(|(item, action)| (plain(item), action.clone())).collect(),
    }
}

/// We list a namespace that does not go, and what was to be in it, as failed; the peer only has the errors
/// (docs/compatibility.md).
fn without_the_namespace(ending: &mut Ending) {
    for item in ["v1/Namespace held", "v1/ConfigMap held/plain"] {
        assert_eq!(ending.items.remove(item).as_deref(), Some("failed"), "{:#?}", ending.items);
    }
    let messages = ending.messages.get_mut("errors/velero").expect("errors about the namespace");
    assert!(messages.pop().is_some_and(|message| message.contains("terminating namespace held")));
}

#[test]
fn what_the_cluster_refuses_is_reported_item_by_item_and_the_rest_is_restored() {
    TestBox::down("refusals").unwrap();
    harness::run("refusals", BoxKind::ControlPlane, async |cluster| {
        let machine = cluster.test_box.machine();
        load::create_all(&cluster.client, refused_objects().into_iter()).await.unwrap();
        let prefix = harness::unique_name("refusals");
        let peer = start(&cluster, Edition::Peer, "velero-peer", &prefix);
        back_up(&peer, "refused", &json!({"includedNamespaces": ["refused", "untouched"]}));
        machine.kubectl(&["delete", "crd", "gones.example.com"]).unwrap();
        wait_until("the type to be forgotten", Duration::from_secs(30), || {
            anyhow::ensure!(!machine.discovers("gones.example.com")?, "the API server still lists it");
            Ok(())
        })
        .unwrap();
        // It waits for ever for a type that goes while it runs.
        peer.stop().unwrap();
        let peer = start(&cluster, Edition::Peer, "velero-peer", &prefix);
        let theirs = restore_into_refusals(machine, &peer, &prefix, "peer");
        peer.stop().unwrap();
        let ours = start(&cluster, Edition::Ours, "velero", &prefix);
        restores::wait_for_backup(&ours, "refused").unwrap();
        let mut ours = restore_into_refusals(machine, &ours, &prefix, "ours");
        without_the_namespace(&mut ours[1]);

        let mut wrong = Vec::new();
        for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(theirs.phase(), "PartiallyFailed", "{:#?}", theirs.messages);
            let found = restores::differences(ours, theirs, &["kube-root-ca.crt", "/default", "Endpoint"]);
            wrong.extend(found.into_iter().map(|line| format!("restore {index}: {line}")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let created = ours[0].items_that_were("created");
        for item in [
            "v1/ConfigMap refusing/yes-1",
            "v1/ConfigMap refusing/yes-2",
            "v1/ConfigMap free/plain",
            "apps/v1/Deployment refusing/web",
        ] {
            assert!(created.contains(item), "{item} is not among {created:?}");
        }
        let failed = ours[0].items_that_were("failed");
        for item in ["v1/ConfigMap refusing/no-1", "v1/Secret refusing/unheard", "v1/Service refusing/over-quota"] {
            assert!(failed.contains(item), "{item} is not among {failed:?}");
        }
    });
    TestBox::down("refusals").unwrap();
}
