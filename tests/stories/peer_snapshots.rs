//! A volume snapshotter, unmodified, under both servers: the same records, and either server restores and deletes.

use std::io::Read;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::{BUCKET, MOTO_REGION, Moto};
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, install, load};
use velero_tests::{backups, restores};

const SHOP: &str = "shop";
const MINUTE: Duration = Duration::from_secs(60);
/// The provider that is of the first version to both servers.
const PROVIDER: &str = "example.velero.io/volumes-v1";

/// A claim and its volume; the snapshotter knows the volumes of one driver only.
fn claim(name: &str, driver: &str, annotations: &Value) -> [Value; 2] {
    let source = json!({"csi": {"driver": driver, "volumeHandle": format!("disk-{name}")}});
    claim_of(name, "zone-1", &source, annotations)
}

/// A claim and its volume, which is there.
fn claim_of(name: &str, zone: &str, source: &Value, annotations: &Value) -> [Value; 2] {
    let (size, modes) = (json!({"storage": "1Mi"}), json!(["ReadWriteOnce"]));
    let volume = format!("pv-{name}");
    let labels = json!({"topology.kubernetes.io/zone": zone, "tier": "gold"});
    let mut spec = json!({"capacity": size, "accessModes": modes, "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "", "claimRef": {"namespace": SHOP, "name": name}});
    spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let metadata = json!({"name": volume, "labels": labels, "annotations": annotations});
    let claim =
        json!({"accessModes": modes, "storageClassName": "", "volumeName": volume, "resources": {"requests": size}});
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": SHOP}, "spec": claim}),
    ]
}

/// A server with a plugin.
fn server_with(cluster: &TestCluster, edition: Edition, run: &str, plugin: &str) -> VeleroServer {
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let options = ServerOptions {
        prefix: format!("{run}/{namespace}"),
        namespace,
        plugins: vec![install::package_binary(plugin, plugin, "dev").unwrap()],
        ..ServerOptions::default()
    };
    VeleroServer::up(&cluster.test_box, edition, options).unwrap()
}

fn server(cluster: &TestCluster, edition: Edition, run: &str) -> VeleroServer {
    let server = server_with(cluster, edition, run, "velero-plugin-example");
    let folder = server.machine().folder(&format!("snapshots-{}", server.namespace())).unwrap();
    let config = json!({"path": folder});
    let metadata = json!({"name": "folders", "namespace": server.namespace()});
    let location = json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": metadata,
        "spec": {"provider": PROVIDER, "config": config}});
    server.machine().apply(&location.to_string()).unwrap();
    server
}

/// A list that a backup has stored, by the name of the volume, without what differs from run to run.
fn records(server: &VeleroServer, run: &str, file: &str) -> Vec<Value> {
    let key = format!("{run}/{}/backups/b/b-{file}.json.gz", server.namespace());
    let content = backups::object(server.machine(), BUCKET, &key).unwrap().unwrap_or_else(|| panic!("no {key}"));
    let mut text = String::new();
    MultiGzDecoder::new(content.as_slice()).read_to_string(&mut text).unwrap();
    let mut all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.sort_by_key(|record| (record["pvName"].to_string(), record["spec"]["persistentVolumeName"].to_string()));
    for record in &mut all {
        for pointer in
            ["/spec/backupUID", "/status/providerSnapshotID", "/nativeSnapshotInfo/snapshotHandle", "/skippedReason"]
        {
            if let Some(value) = record.pointer_mut(pointer).filter(|value| **value != "") {
                *value = json!("…");
            }
        }
    }
    all
}

#[test]
fn a_snapshotter_of_ours_does_the_same_under_both_servers() {
    TestBox::down("snapshots").unwrap();
    harness::run("snapshots", BoxKind::ControlPlane, async |cluster| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}});
        let fails = json!({"example.velero.io/snapshot": "fail"});
        let objects = [
            claim("good", "example.velero.io", &json!({})),
            claim("foreign", "other.example.com", &json!({})),
            claim("failing", "example.velero.io", &fails),
        ];
        load::create_all(&cluster.client, std::iter::once(namespace).chain(objects.into_iter().flatten()))
            .await
            .unwrap();
        let run = harness::unique_name("snapshots");
        let servers = [server(&cluster, Edition::Ours, &run), server(&cluster, Edition::Peer, &run)];
        let [ours, peer] = &servers;
        wait_until_bound(ours, "Bound Bound Bound");
        let statuses = servers.each_ref().map(backed_up);
        assert_eq!(statuses[0], statuses[1]);
        assert_eq!(statuses[0], json!([["folders"], ["PartiallyFailed", 1, 2, 1]]));
        for file in ["volumesnapshots", "volumeinfo"] {
            assert_eq!(records(ours, &run, file), records(peer, &run, file), "{file}");
        }
        assert_eq!(described(ours, Edition::Ours), described(ours, Edition::Peer));
        for server in &servers {
            let volume = restores_beside(server);
            let handle = volume["spec"]["csi"]["volumeHandle"].as_str().unwrap();
            assert!(handle.starts_with("disk-good-from-snapshot-"), "{handle}");
            server.velero(&["backup", "delete", "b", "--confirm"]).unwrap();
            let folder = server.machine().folder(&format!("snapshots-{}", server.namespace())).unwrap();
            wait_until("the snapshots to be gone", MINUTE, || {
                anyhow::ensure!(std::fs::read_dir(&folder)?.next().is_none(), "{} is not empty", folder.display());
                Ok(())
            })
            .unwrap();
        }
    });
    TestBox::down("snapshots").unwrap();
}

fn wait_until_bound(server: &VeleroServer, expected: &str) {
    wait_until("the claims to be bound", MINUTE, || {
        let claims = server.machine().items(&format!("/api/v1/namespaces/{SHOP}/persistentvolumeclaims"))?;
        let phases: Vec<&str> = claims.iter().filter_map(|claim| claim["status"]["phase"].as_str()).collect();
        anyhow::ensure!(phases.join(" ") == expected, "{phases:?}");
        Ok(())
    })
    .unwrap();
}

/// Makes a backup and gives the numbers of its end.
fn backed_up(server: &VeleroServer) -> Value {
    backups::create(server, "b", &json!({"includedNamespaces": [SHOP]})).unwrap();
    let backup = backups::ended(server, "b", MINUTE).unwrap();
    let status = &backup["status"];
    let locations = &backup["spec"]["volumeSnapshotLocations"];
    let fields = ["phase", "errors", "volumeSnapshotsAttempted", "volumeSnapshotsCompleted"];
    json!([locations, fields.map(|field| status[field].clone())])
}

#[test]
fn ebs_volumes_are_saved_and_restored_by_our_binary_under_both_servers() {
    const BOX: &str = "cloud-volumes";
    TestBox::down(BOX).unwrap();
    TestBox::up(BOX, BoxKind::ControlPlane).unwrap();
    TestBox::start_in_store(&Moto).unwrap();
    harness::run(BOX, BoxKind::ControlPlane, async |cluster| {
        let zone = format!("{MOTO_REGION}a");
        let good = Moto::make_volume("gp3", "").unwrap();
        let source = |id: &str| json!({"awsElasticBlockStore": {"volumeID": format!("aws://{zone}/{id}")}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}});
        let objects = [
            claim_of("good", &zone, &source(&good), &json!({})),
            claim_of("missing", &zone, &source("vol-0123456789abcdef0"), &json!({})),
        ];
        load::create_all(&cluster.client, std::iter::once(namespace).chain(objects.into_iter().flatten()))
            .await
            .unwrap();
        let run = harness::unique_name("ebs");
        let servers = [Edition::Ours, Edition::Peer].map(|edition| {
            let server = server_with(&cluster, edition, &run, "velero-plugin-aws");
            add_ec2(&server);
            server
        });
        wait_until_bound(&servers[0], "Bound Bound");
        for server in &servers {
            assert_eq!(backed_up(server), json!([["ebs"], ["PartiallyFailed", 1, 1, 1]]), "{}", server.namespace());
        }
        for file in ["volumesnapshots", "volumeinfo"] {
            assert_eq!(records(&servers[0], &run, file), records(&servers[1], &run, file), "{file}");
        }
        assert_eq!(Moto::snapshots_of(&good).unwrap().len(), 2);
        for server in &servers {
            let volume = restores_beside(server);
            let restored = volume["spec"]["awsElasticBlockStore"]["volumeID"].as_str().unwrap();
            assert!(restored.starts_with("vol-") && restored != good, "{restored}");
            Moto::ask(&format!("Action=DescribeVolumes&VolumeId.1={restored}")).unwrap();
            server.velero(&["backup", "delete", "b", "--confirm"]).unwrap();
        }
        wait_until("the snapshots to be gone", MINUTE, || {
            let left = Moto::snapshots_of(&good)?;
            anyhow::ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .unwrap();
    });
    TestBox::down(BOX).unwrap();
}

/// Gives a server a place for snapshots at the stand-in for EC2.
fn add_ec2(server: &VeleroServer) {
    let metadata = |name: &str| json!({"name": name, "namespace": server.namespace()});
    let account = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("ec2-account"),
        "stringData": {"cloud": Moto::credentials().unwrap()}});
    let config = json!({"region": MOTO_REGION, "ec2Url": Moto::url_in_boxes()});
    let credential = json!({"name": "ec2-account", "key": "cloud"});
    let location = json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": metadata("ebs"),
        "spec": {"provider": "velero.io/aws-ebs", "config": config, "credential": credential}});
    for object in [account, location] {
        server.machine().apply(&object.to_string()).unwrap();
    }
}

/// What a command says about the native snapshots of our backup.
fn described(server: &VeleroServer, edition: Edition) -> Vec<String> {
    let text = server.velero_of(edition, &["backup", "describe", "b", "--details"]).unwrap();
    let lines = text.lines().skip_while(|line| !line.contains("Velero-Native Snapshots:"));
    let lines: Vec<String> = lines.take_while(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    assert!(lines.iter().any(|line| line.contains("pv-good")), "{text}");
    lines
}

/// Restores the backup into another namespace and gives the volume of the claim that can be restored.
fn restores_beside(server: &VeleroServer) -> Value {
    let name = format!("of-{}", server.namespace());
    restores::create(server, &name, &json!({"backupName": "b", "namespaceMapping": {(SHOP): name}})).unwrap();
    let mut volume = String::new();
    wait_until("the claim to be bound", MINUTE, || {
        let claim = server.machine().read(&format!("/api/v1/namespaces/{name}/persistentvolumeclaims/good"))?;
        anyhow::ensure!(claim["status"]["phase"] == "Bound", "{}", claim["status"]);
        volume = claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
        Ok(())
    })
    .unwrap();
    assert!(volume.starts_with("velero-clone-"), "{name}: {volume}");
    let volume = server.machine().read(&format!("/api/v1/persistentvolumes/{volume}")).unwrap();
    assert_eq!(volume["metadata"]["annotations"]["velero.io/original-pv-name"], "pv-good", "{name}");
    volume
}
