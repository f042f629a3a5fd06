//! What stays of those who moved data: objects, volumes, snapshots of the driver, mounts.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use velero_testkit::machine::wait_until;

use super::{Kills, strike};
use crate::{csi, volume_data};

/// How long Kubernetes may take to remove what nobody needs any more.
const PATIENCE: Duration = Duration::from_secs(90);

impl Kills {
    /// What stays once there was time to remove it; `objects` are the names of those that moved data.
    pub(super) fn left(&self, objects: &[String]) -> Result<Vec<String>> {
        let gone = wait_until("the left-overs to go", PATIENCE, || {
            let left = self.left_now(objects)?;
            ensure!(left.is_empty(), "left are {left:?}");
            Ok(())
        });
        if gone.is_ok() { Ok(Vec::new()) } else { self.left_now(objects) }
    }

    fn left_now(&self, objects: &[String]) -> Result<Vec<String>> {
        let mut left = volume_data::left_overs(&self.server)?;
        let processes = objects.iter().filter_map(|object| strike::process_of(object).map(|process| (object, process)));
        left.extend(processes.map(|(object, process)| format!("process {process} of {object}")));
        left.extend(self.kept_transfers()?);
        let volumes = self.machine.items("/api/v1/persistentvolumes")?;
        let of_movers = volumes.iter().filter(|volume| {
            let labels = &volume["metadata"]["labels"];
            volume["spec"]["claimRef"]["namespace"] == self.server.namespace()
                || labels["velero.io/data-download-uid"].is_string()
        });
        left.extend(of_movers.map(|volume| format!("volume {}", name(volume))));
        left.extend(
            csi::held(&csi::volumes(&self.machine)?)?.into_iter().map(|it| format!("snapshot {it} of the driver")),
        );
        left.extend(volume_data::mounts_of_nobody(&self.machine)?);
        Ok(left)
    }

    /// Transfers that have not ended, or that are kept because somebody has yet to clean up after them.
    fn kept_transfers(&self) -> Result<Vec<String>> {
        let mut kept = Vec::new();
        for plural in volume_data::TRANSFERS {
            let version = volume_data::version_of(plural);
            let path = format!("/apis/velero.io/{version}/namespaces/{}/{plural}", self.server.namespace());
            let transfers = self.machine.items(&path)?;
            let is_kept = |transfer: &&Value| transfer["metadata"]["finalizers"].is_array();
            kept.extend(
                transfers.iter().filter(is_kept).map(|transfer| format!("finalizers of {plural} {}", name(transfer))),
            );
        }
        Ok(kept)
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
