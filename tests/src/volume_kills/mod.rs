//! Those who move the data of volumes are killed at every moment of their work: what is left must be true.
//!
//! ```text
//! round ── transfers side by side, each kept at its moment; one kill meets them all
//!   ├─ moment ── when, and what keeps a transfer there
//!   ├─ gates ── a store that holds requests
//!   ├─ strike ── who is killed or stopped, and how they come back
//!   ├─ ending ── how a transfer and its owner ended, and whether that is true
//!   └─ left ── what stays of those who moved data
//! ```

mod ending;
mod gates;
mod left;
mod moment;
mod round;
mod strike;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::Machine;
use velero_testkit::{Edition, TestCluster, VeleroServer, load, objects};

use crate::volume_data::{self, claimed};
use crate::{backups, restores};

pub use ending::Ending;
use gates::Gates;
pub use moment::Moment;
pub use round::Round;
pub use strike::Victim;

/// How long a piece of work may take, the kill included.
const DEADLINE: Duration = Duration::from_secs(180);
/// How many backups go on at a time: as many as there are moments of them.
const CONCURRENT: &str = "--concurrent-backups=8";
/// The backups to restore from.
const COPIES: &str = "copies";
const MOVES: &str = "moves";

/// A server with agents behind a store with gates, and pods with data.
pub struct Kills {
    machine: Machine,
    server: VeleroServer,
    prefix: String,
    gates: Gates,
    /// What lies in the volumes that are restored, by their namespaces.
    pictures: Vec<(&'static str, String)>,
}

impl Kills {
    /// Brings everything up, with one backup of each kind to restore from: repositories are made and open then.
    pub async fn start(cluster: &TestCluster, edition: Edition) -> Result<Self> {
        let machine = cluster.test_box.machine().clone();
        // The moments that are not among these have the namespaces of others.
        let namespaces = Moment::TOGETHER.map(|moment| (moment.namespace(), moment.is_move()));
        for (namespace, is_moved) in &namespaces {
            let wanted = if *is_moved { json!({}) } else { json!({"backup.velero.io/backup-volumes": "data"}) };
            let pod = volume_data::pod(namespace, "web", &wanted, &json!([claimed("data", "data")]));
            let all = [objects::namespace(namespace), objects::claim(namespace, "data"), pod];
            load::create_all(&cluster.client, all.into_iter()).await?;
        }
        let prefix = velero_testkit::harness::unique_name("kills");
        let server = volume_data::busy_server_with(&cluster.test_box, edition, &prefix, &[CONCURRENT])?;
        for (namespace, _) in &namespaces {
            volume_data::wait_for_pods(&machine, namespace, &["web"])?;
        }
        let gates = Gates::start(&server).await?;
        let mut kills = Self { machine, server, prefix, gates, pictures: Vec::new() };
        for (name, moves) in [(COPIES, false), (MOVES, true)] {
            let of_kind = namespaces.iter().filter(|(_, is_moved)| *is_moved == moves);
            let included: Vec<&str> = of_kind.map(|(namespace, _)| *namespace).collect();
            backups::create(&kills.server, name, &backup_spec(&included, moves))?;
        }
        for name in [COPIES, MOVES] {
            let backup = backups::ended(&kills.server, name, DEADLINE)?;
            ensure!(backup["status"]["phase"] == "Completed", "{name}: {}", backup["status"]);
        }
        for moment in Moment::TOGETHER.into_iter().filter(|moment| moment.is_restore()) {
            let picture = volume_data::picture(&kills.machine, moment.namespace(), "web", "data")?;
            kills.pictures.push((moment.namespace(), picture));
        }
        Ok(kills)
    }

    /// Asks for the backup or restore of a moment, under that name; annotations and fields of the spec are added.
    fn begin(&self, moment: Moment, name: &str, annotations: &Value, fields: &Value) -> Result<()> {
        let namespace = moment.namespace();
        let mut object = if moment.is_restore() {
            let backup = if moment.is_move() { MOVES } else { COPIES };
            let spec = json!({
                "backupName": backup, "includedNamespaces": [namespace], "namespaceMapping": {namespace: name},
            });
            restores::request(&self.server, name, &spec)
        } else {
            let fresh = moment.fresh();
            let fill = format!("dd if=/dev/urandom of=/volumes/data/fresh bs=1M count={fresh} 2>/dev/null; sync");
            self.machine.kubectl(&["-n", namespace, "exec", "web", "--", "sh", "-c", &fill])?;
            backups::request(&self.server, name, &backup_spec(&[namespace], moment.is_move()))
        };
        if let Some(held) = moment.held() {
            self.gates.close(namespace, held);
        }
        object["metadata"]["annotations"] = annotations.clone();
        for (field, value) in fields.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.machine.apply(&object.to_string())
    }

    /// Has the node agents run with a further flag from now on.
    pub fn tell_agents(&self, flag: &str) -> Result<()> {
        let path = "/spec/template/spec/containers/0/args/-";
        let patch = json!([{"op": "add", "path": path, "value": flag}]).to_string();
        let namespace = self.server.namespace();
        self.machine.kubectl(&["-n", namespace, "patch", "daemonset", "node-agent", "--type=json", "-p", &patch])?;
        let waits = ["-n", namespace, "rollout", "status", "daemonset", "node-agent", "--timeout=90s"];
        self.machine.kubectl(&waits)?;
        self.server.wait_for_agents()
    }

    /// Ends everything.
    pub fn finish(self) -> Result<()> {
        self.server.remove_agents()?;
        self.server.stop()
    }
}

fn backup_spec(namespaces: &[&str], moves: bool) -> Value {
    json!({"includedNamespaces": namespaces, "snapshotMoveData": moves, "snapshotVolumes": moves})
}
