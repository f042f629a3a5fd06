//! `velero repo` on a BackupRepository: its location, credentials and password are found in the cluster.

use std::process::{Command, Output};

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::harness::unique_name;
use velero_testkit::server::credentials_file;
use velero_testkit::{TestBox, TestCluster, cluster_test};

use crate::sample::{self, Sample};

const BUCKET: &str = "repository-commands";

fn run(cluster: &TestCluster, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_velero"))
        .args(["--namespace", &cluster.namespace, "--kubeconfig"])
        .arg(cluster.test_box.kubeconfig())
        .args(arguments)
        .env("HOME", "/nonexistent")
        .env_remove("VELERO_REPO_PASSWORD")
        .output()
        .unwrap()
}

fn good(cluster: &TestCluster, arguments: &[&str]) -> String {
    let output = run(cluster, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(cluster: &TestCluster, arguments: &[&str]) -> String {
    let output = run(cluster, arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

async fn create(cluster: &TestCluster, version: &str, kind: &str, name: &str, rest: Value) {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
    let mut object = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn patch_location(cluster: &TestCluster, spec: Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", "BackupStorageLocation"));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
    api.patch("default", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

/// Puts a sample into the bucket, as Velero lays it out.
async fn put(sample: &Sample, prefix: &str) {
    let mut config = StoreConfig::new("aws", BUCKET).with("region", "us-east-1").with("s3Url", TestBox::store_url());
    config.credentials = Some(Credentials::Content(credentials_file()));
    let store = config.with("s3ForcePathStyle", "true").open().await.unwrap();
    let root = sample.path();
    for path in sample::paths(&root).into_iter().filter(|path| path.is_file()) {
        let inside = path.strip_prefix(&root).unwrap().to_string_lossy().replace('/', "");
        if let Some(id) = inside.strip_suffix(".f") {
            store.put(&format!("{prefix}{id}"), std::fs::read(&path).unwrap().into()).await.unwrap();
        }
    }
}

#[test]
fn a_repository_of_the_cluster_is_opened_by_its_name() {
    cluster_test(|cluster| async move {
        good(&cluster, &["install", "--crds-only"]);
        TestBox::make_bucket(BUCKET).unwrap();
        let (sample, prefix) = (Sample::basic(), unique_name("east"));
        put(&sample, &format!("{prefix}/kopia/shop/")).await;
        let config = json!({"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": TestBox::store_url()});
        let storage = json!({"bucket": BUCKET, "prefix": prefix});
        let location = json!({"spec": {"provider": "velero.io/aws", "objectStorage": storage, "config": config}});
        create(&cluster, "velero.io/v1", "BackupStorageLocation", "default", location).await;
        let spec = |kind: &str, location: &str| {
            let spec = json!({"volumeNamespace": "shop", "backupStorageLocation": location, "repositoryType": kind, "maintenanceFrequency": "1h0m0s"});
            json!({ "spec": spec })
        };
        for (name, kind, location) in
            [("shop-kopia", "kopia", "default"), ("old", "restic", "default"), ("lost", "kopia", "gone")]
        {
            create(&cluster, "velero.io/v1", "BackupRepository", name, spec(kind, location)).await;
        }
        let secret = json!({"stringData": {"cloud": credentials_file()}});
        create(&cluster, "v1", "Secret", "cloud-credentials", secret).await;

        let (id, _) = sample.tree();
        let ls = ["repo", "ls", "--repository", "shop-kopia"];
        assert!(good(&cluster, &ls).contains(id), "the password is the one Velero takes where nobody chose one");
        assert!(
            good(&cluster, &["repo", "verify", id, "--repository", "shop-kopia"]).ends_with("Nothing is damaged.\n")
        );
        for (name, words) in [
            ("nothing", ["--repository", "\"nothing\"", "velero repo get"]),
            ("old", ["\"old\"", "spec.repositoryType", "\"restic\""]),
            ("lost", ["\"lost\"", "spec.backupStorageLocation", "\"gone\""]),
        ] {
            let said = refusal(&cluster, &["repo", "ls", "--repository", name]);
            words.iter().for_each(|word| assert!(said.contains(word), "{said}"));
        }

        patch_location(&cluster, json!({"accessMode": "ReadOnly"})).await;
        let said = refusal(&cluster, &["repo", "maintain", "--full", "--repository", "shop-kopia"]);
        assert!(said.contains("ReadOnly") && said.contains("--dry-run"), "{said}");
        assert!(
            good(&cluster, &["repo", "maintain", "--full", "--dry-run", "--repository", "shop-kopia"])
                .contains("nothing was written")
        );

        patch_location(&cluster, json!({"credential": {"name": "mine", "key": "keys"}})).await;
        let said = refusal(&cluster, &ls);
        assert!(said.contains("spec.credential") && said.contains("\"mine\""), "{said}");
        create(&cluster, "v1", "Secret", "mine", json!({"stringData": {"keys": credentials_file()}})).await;
        good(&cluster, &ls);

        let password = json!({"stringData": {"repository-password": "another"}});
        create(&cluster, "v1", "Secret", "velero-repo-credentials", password).await;
        let said = refusal(&cluster, &ls);
        assert!(said.contains("does not open") && said.contains("velero-repo-credentials"), "{said}");
    });
}
