//! The kubelet: the node of the box.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Certificates, Containerd, Part};
use crate::install;
use crate::machine::{Machine, wait_until};

/// The name of the only node.
pub const NODE_NAME: &str = "node1";
/// How many pods a node takes unless it is told otherwise.
const USUAL_PODS: usize = 110;
/// How long it may take to start.
const A_START: Duration = Duration::from_secs(60);

/// Runs pods on the node.
pub struct Kubelet;

impl Part for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn install(&self) -> Result<()> {
        install::kubernetes().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        self.start_with_room(machine, USUAL_PODS)
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        let node = machine.read(&format!("/api/v1/nodes/{NODE_NAME}"))?;
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let ready = ready.context("the node does not say whether it is Ready")?;
        ensure!(ready["status"] == "True", "the node is not Ready ({ready})");
        Ok(())
    }
}

impl Kubelet {
    /// Starts it anew with room for that many pods: for measurements with more at once than nodes usually take.
    pub fn make_room(&self, machine: &Machine, pods: usize) -> Result<()> {
        machine.stop(self.name())?;
        self.start_with_room(machine, pods)?;
        wait_until("room for more pods", A_START, || {
            let node = machine.read(&format!("/api/v1/nodes/{NODE_NAME}"))?;
            let room = &node["status"]["allocatable"]["pods"];
            ensure!(room.as_str().is_some_and(|room| room.parse() == Ok(pods)), "the node has room for {room} pods");
            self.check(machine)
        })
    }

    fn start_with_room(&self, machine: &Machine, pods: usize) -> Result<()> {
        let configuration = machine.state().join("kubelet.json");
        fs::write(&configuration, self.configuration(machine, pods)?)?;
        machine.start(
            self.name(),
            machine.kubernetes()?.join(self.name()),
            [
                format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()),
                format!("--config={}", configuration.display()),
                format!("--root-dir={}", machine.folder("kubelet")?.display()),
                format!("--hostname-override={NODE_NAME}"),
                format!("--node-ip={}", machine.node_address()),
            ],
        )
    }

    fn configuration(&self, machine: &Machine, pods: usize) -> Result<String> {
        let configuration = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", machine.cgroup()),
            "clusterDNS": [machine.node_address()],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": format!("unix://{}", Containerd::socket(machine).display()),
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "maxPods": pods,
            // What changes is told within two seconds. What does not is told by the lease of the node; without this, all of the
            // status would be written every two seconds, and read by everybody who watches nodes.
            "nodeStatusReportFrequency": "1m",
            "nodeStatusUpdateFrequency": "2s",
            "podCIDR": machine.pod_range(),
            "podLogsDir": machine.folder("log/pods")?,
            "resolvConf": "",
            "syncFrequency": "5s",
            "volumePluginDir": machine.folder("kubelet-volume-plugins")?,
        });
        Ok(configuration.to_string())
    }
}
