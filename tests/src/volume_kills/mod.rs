//! Those who move the data of a volume are killed, one at a time, at every moment of their work: what is left must be true.

mod strike;
mod traffic;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::progress::say;
use velero_testkit::{Edition, TestCluster, VeleroServer, load, objects};

use crate::volume_data::{self, claimed, movers};
use crate::{backups, restores};

pub use strike::Victim;
use traffic::Traffic;

/// How long a piece of work may take, the kill included.
const DEADLINE: Duration = Duration::from_secs(150);
/// How long a moment may take to come.
const UNTIL_MOMENT: Duration = Duration::from_secs(60);
/// How much new data a volume gets before each backup, in MiB: more than one pack.
const FRESH: u32 = 30;
/// Where the pod is whose volume is copied, and where the one whose snapshot is moved.
const COPIED: &str = "copied";
const MOVED: &str = "moved";

/// When the kill comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A copy is asked for.
    CopyNew,
    /// A node has taken it.
    CopyAccepted,
    /// Its pod runs.
    CopyPrepared,
    /// The copy has begun.
    CopyEarly,
    /// Data is under way.
    CopyMiddle,
    /// All data is there, what names it is under way.
    CopyLate,
    /// The copy is there.
    CopyEnded,
    /// Data of a snapshot is under way.
    MoveMiddle,
    /// A copy is under way back into a pod.
    CopyBackMiddle,
    /// Data of a snapshot is under way back into a volume.
    MoveBackMiddle,
}

impl Moment {
    /// All of them.
    pub const EVERY: [Self; 10] = [
        Self::CopyNew,
        Self::CopyAccepted,
        Self::CopyPrepared,
        Self::CopyEarly,
        Self::CopyMiddle,
        Self::CopyLate,
        Self::CopyEnded,
        Self::MoveMiddle,
        Self::CopyBackMiddle,
        Self::MoveBackMiddle,
    ];

    /// The plural of the objects that move the data, and the label that names their owner.
    fn objects(self) -> (&'static str, &'static str) {
        match self {
            Self::MoveMiddle => ("datauploads", "velero.io/backup-name"),
            Self::CopyBackMiddle => ("podvolumerestores", "velero.io/restore-name"),
            Self::MoveBackMiddle => ("datadownloads", "velero.io/restore-name"),
            _ => ("podvolumebackups", "velero.io/backup-name"),
        }
    }

    fn is_restore(self) -> bool {
        matches!(self, Self::CopyBackMiddle | Self::MoveBackMiddle)
    }

    fn namespace(self) -> &'static str {
        if matches!(self, Self::MoveMiddle | Self::MoveBackMiddle) { MOVED } else { COPIED }
    }

    /// Whether it has come.
    fn has_come(self, phase: &str, traffic: &Traffic) -> bool {
        match self {
            Self::CopyNew => true,
            Self::CopyAccepted => is_at_least(phase, "Accepted"),
            Self::CopyPrepared => is_at_least(phase, "Prepared"),
            Self::CopyEarly => is_at_least(phase, "InProgress"),
            Self::CopyMiddle | Self::MoveMiddle => traffic.packs_written() > 0,
            Self::CopyLate => traffic.indexes_written() > 0,
            Self::CopyEnded => is_at_least(phase, "Completed"),
            Self::CopyBackMiddle | Self::MoveBackMiddle => is_at_least(phase, "InProgress") && traffic.packs_read() > 0,
        }
    }
}

/// Whether a phase is that one, or one that comes later.
fn is_at_least(phase: &str, wanted: &str) -> bool {
    let order = ["", "New", "Accepted", "Prepared", "InProgress"];
    let place = |phase: &str| order.iter().position(|known| *known == phase).unwrap_or(order.len());
    place(phase) >= place(wanted)
}

/// How a case ended.
#[derive(Debug)]
pub struct Ending {
    /// Whether there was somebody to kill.
    pub struck: bool,
    /// The phase of the object that moves the data.
    pub object: String,
    /// The phase of the backup or restore.
    pub owner: String,
    /// What stays of those who moved data.
    pub left: Vec<String>,
}

/// A server with agents behind a slow store, and pods with data.
pub struct Kills {
    machine: Machine,
    server: VeleroServer,
    traffic: Traffic,
}

impl Kills {
    /// Brings everything up, with one backup of each kind to restore from.
    pub async fn start(cluster: &TestCluster, edition: Edition) -> Result<Self> {
        let machine = cluster.test_box.machine().clone();
        for (namespace, wanted) in [(COPIED, json!({"backup.velero.io/backup-volumes": "data"})), (MOVED, json!({}))] {
            let pod = volume_data::pod(namespace, "web", &wanted, &json!([claimed("data", "data")]));
            let all = [objects::namespace(namespace), objects::claim(namespace, "data"), pod];
            load::create_all(&cluster.client, all.into_iter()).await?;
            volume_data::wait_for_pods(&machine, namespace, &["web"])?;
        }
        let prefix = velero_testkit::harness::unique_name("kills");
        let server = volume_data::server(&cluster.test_box, edition, &prefix)?;
        let traffic = Traffic::start(&server).await?;
        let kills = Self { machine, server, traffic };
        for namespace in [COPIED, MOVED] {
            kills.back_up(namespace, namespace)?;
            let backup = backups::ended(&kills.server, namespace, DEADLINE)?;
            ensure!(backup["status"]["phase"] == "Completed", "{}", backup["status"]);
        }
        Ok(kills)
    }

    /// Backs a namespace up, with data that no repository has yet.
    fn back_up(&self, namespace: &str, name: &str) -> Result<()> {
        let fill = format!("dd if=/dev/urandom of=/volumes/data/fresh bs=1M count={FRESH} 2>/dev/null; sync");
        self.machine.kubectl(&["-n", namespace, "exec", "web", "--", "sh", "-c", &fill])?;
        let moves = namespace == MOVED;
        let spec = json!({"includedNamespaces": [namespace], "snapshotMoveData": moves, "snapshotVolumes": moves});
        self.traffic.forget();
        backups::create(&self.server, name, &spec)
    }

    /// Has one killed at a moment, and waits for what comes of it.
    pub fn case(&self, victim: Victim, moment: Moment) -> Result<Ending> {
        let name = format!("{victim:?}-{moment:?}").to_lowercase();
        if moment.is_restore() {
            let spec = json!({"backupName": moment.namespace(), "namespaceMapping": {moment.namespace(): name}});
            self.traffic.forget();
            restores::create(&self.server, &name, &spec)?;
        } else {
            self.back_up(moment.namespace(), &name)?;
        }
        let (object, phase) = self.await_moment(moment, &name)?;
        let struck = victim.strike(&self.machine, &self.server, &object)?;
        say(format!(
            "{victim:?} at {moment:?}: {} (the object was {phase:?})",
            if struck { "killed" } else { "nobody to kill" }
        ));
        victim.revive(&self.machine, &self.server)?;
        let owner = if moment.is_restore() {
            restores::ended(&self.server, &name, DEADLINE)?
        } else {
            backups::ended(&self.server, &name, DEADLINE)?
        };
        let object = self.ended(moment, &name)?;
        let left = volume_data::wait_for_no_left_overs(&self.server);
        let left = if left.is_ok() { Vec::new() } else { volume_data::left_overs(&self.server)? };
        self.clear(moment, &name)?;
        let owner = owner["status"]["phase"].as_str().unwrap_or_default().to_owned();
        Ok(Ending { struck, object, owner, left })
    }

    /// Waits for a moment; gives the name of the object that moves the data, and its phase.
    fn await_moment(&self, moment: Moment, owner: &str) -> Result<(String, String)> {
        let begun = std::time::Instant::now();
        loop {
            if let Some(object) = self.object(moment, owner)? {
                let phase = object["status"]["phase"].as_str().unwrap_or_default().to_owned();
                if moment.has_come(&phase, &self.traffic) {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    return Ok((name, phase));
                }
                ensure!(begun.elapsed() < UNTIL_MOMENT, "{owner}: {moment:?} does not come: {}", object["status"]);
            }
            ensure!(begun.elapsed() < UNTIL_MOMENT, "{owner}: {moment:?} does not come, nothing moves data");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn object(&self, moment: Moment, owner: &str) -> Result<Option<Value>> {
        let (plural, label) = moment.objects();
        Ok(movers(&self.server, plural, label, owner)?.into_iter().next())
    }

    /// The phase of the object that moves the data, once it has ended.
    fn ended(&self, moment: Moment, owner: &str) -> Result<String> {
        let mut phase = String::new();
        let ended = wait_until("the object that moves the data", Duration::from_secs(60), || {
            let object = self.object(moment, owner)?.context("it is gone")?;
            phase = object["status"]["phase"].as_str().unwrap_or_default().to_owned();
            ensure!(["Completed", "Failed", "Canceled"].contains(&phase.as_str()), "it is {phase}");
            Ok(())
        });
        Ok(if ended.is_ok() { phase } else { format!("{phase} for ever") })
    }

    /// Removes what a case has restored.
    fn clear(&self, moment: Moment, name: &str) -> Result<()> {
        if moment.is_restore() {
            self.machine.delete(&format!("/api/v1/namespaces/{name}"))?;
        }
        Ok(())
    }

    /// Ends everything.
    pub fn finish(self) -> Result<()> {
        self.server.remove_agents()?;
        self.server.stop()
    }
}
