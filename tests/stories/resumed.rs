//! A restore whose server is killed while the data of a pod comes back is resumed: the pod gets it, and all is as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use velero_testkit::faulty_proxy::{self, Action, Request, Rule};
use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, Edition, TestBox, TestCluster, VeleroServer, harness, load, objects};
use velero_tests::volume_data::{self, PATIENCE, claimed, empty_dir};
use velero_tests::{backups, restores};

const BOX: &str = "resumed";
const SHOP: &str = "shop";
const COPY: &str = "shop-2";

/// A store that holds back the data of repositories while it is told to.
#[derive(Clone, Default)]
struct Gate {
    is_closed: Arc<AtomicBool>,
    is_reached: Arc<AtomicBool>,
}

impl Rule for Gate {
    fn action(&self, request: &Request) -> Action {
        let path = request.path.split('?').next().unwrap_or_default();
        let is_data = path.contains("/kopia/") && path.rsplit('/').next().is_some_and(|blob| blob.starts_with('p'));
        if request.method != "GET" || !is_data || !self.is_closed.load(Ordering::SeqCst) {
            return Action::Forward;
        }
        self.is_reached.store(true, Ordering::SeqCst);
        Action::AskAgain(Duration::from_millis(50))
    }
}

/// Puts the gate in front of the location of a server.
async fn put_in_front(server: &VeleroServer, gate: &Gate) {
    let address = server.machine().node_address();
    let url = faulty_proxy::start_at(address, &TestBox::store_url_for_pods(), gate.clone()).await.unwrap();
    let known = server.object("backupstoragelocations", "default").unwrap();
    let mut location = json!({
        "apiVersion": known["apiVersion"], "kind": known["kind"], "spec": known["spec"],
        "metadata": {"name": "default", "namespace": server.namespace()},
    });
    location["spec"]["config"]["s3Url"] = json!(url);
    server.machine().apply(&location.to_string()).unwrap();
    server.wait_for_location("default").unwrap();
}

/// A pod with a volume that is a claim and one that goes with it.
async fn make_shop(cluster: &TestCluster) {
    let wanted = json!({"backup.velero.io/backup-volumes": "data,scratch"});
    let volumes = json!([claimed("data", "data"), empty_dir("scratch")]);
    let all = [
        objects::namespace(SHOP),
        objects::claim(SHOP, "data"),
        objects::config_map(SHOP, "settings", "colour", "red"),
        volume_data::pod(SHOP, "web", &wanted, &volumes),
    ];
    load::create_all(&cluster.client, all.into_iter()).await.unwrap();
    volume_data::wait_for_pods(cluster.test_box.machine(), SHOP, &["web"]).unwrap();
}

/// Waits until nobody moves data for the restore that was cut off.
fn wait_for_movers(server: &VeleroServer) {
    wait_until("the movers to end", PATIENCE, || {
        let movers = volume_data::movers(server, "podvolumerestores", "velero.io/restore-name", "cut")?;
        let ended = movers.iter().all(|mover| {
            ["Completed", "Failed", "Canceled"].contains(&mover["status"]["phase"].as_str().unwrap_or_default())
        });
        ensure!(!movers.is_empty() && ended, "{movers:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_restore_that_was_killed_while_data_came_back_is_resumed_to_its_end() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::Storage, async |cluster| {
        let prefix = harness::unique_name("resumed");
        let server = volume_data::server(&cluster.test_box, Edition::Ours, &prefix).unwrap();
        let machine = server.machine().clone();
        make_shop(&cluster).await;
        let gate = Gate::default();
        put_in_front(&server, &gate).await;
        backups::create(&server, "good", &json!({"includedNamespaces": [SHOP]})).unwrap();
        let good = backups::ended(&server, "good", PATIENCE).unwrap();
        assert_eq!(good["status"]["phase"], "Completed", "{}", good["status"]);

        gate.is_closed.store(true, Ordering::SeqCst);
        restores::create(&server, "cut", &json!({"backupName": "good", "namespaceMapping": {SHOP: COPY}})).unwrap();
        wait_until("the mover to read data", PATIENCE, || {
            ensure!(gate.is_reached.load(Ordering::SeqCst), "nobody reads data");
            Ok(())
        })
        .unwrap();
        server.kill().unwrap();
        server.start().unwrap();
        let cut = restores::ended(&server, "cut", PATIENCE).unwrap();
        assert_eq!(cut["status"]["phase"], "Failed", "{}", cut["status"]);
        wait_for_movers(&server);
        let pod = machine.read(&format!("/api/v1/namespaces/{COPY}/pods/web")).unwrap();
        assert_eq!(pod["status"]["phase"], "Pending", "it waits for its data");

        gate.is_closed.store(false, Ordering::SeqCst);
        let said = server.velero(&["restore", "create", "--resume", "cut", "--wait"]).unwrap();
        assert!(said.contains("Restore completed with status: Completed"), "{said}");
        let resumed = server.object("restores", "cut-resume-1").unwrap();
        let counts = (&resumed["status"]["errors"], &resumed["status"]["warnings"]);
        assert_eq!(counts, (&json!(null), &json!(null)), "{}", resumed["status"]);
        volume_data::wait_for_pods(&machine, COPY, &["web"]).unwrap();
        for volume in ["data", "scratch"] {
            let [before, after] =
                [SHOP, COPY].map(|namespace| volume_data::picture(&machine, namespace, "web", volume).unwrap());
            assert_eq!(after, before, "{volume}");
        }
        let settings = machine.read(&format!("/api/v1/namespaces/{COPY}/configmaps/settings")).unwrap();
        assert_eq!(settings["data"]["colour"], "red");
        volume_data::wait_for_no_left_overs(&server).unwrap();
        let said = format!("{:#}", server.velero(&["restore", "create", "--resume", "cut"]).unwrap_err());
        assert!(said.contains("\"cut-resume-1\" went on with it and is Completed"), "{said}");
        server.remove_agents().unwrap();
        server.stop().unwrap();
    });
    TestBox::down(BOX).unwrap();
}
