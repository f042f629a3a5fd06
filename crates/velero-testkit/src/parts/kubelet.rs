//! The kubelet: the node of the box.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Certificates, Containerd, Part};
use crate::install;
use crate::machine::Machine;

/// The name of the only node.
pub const NODE_NAME: &str = "node1";

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
        let configuration = machine.state().join("kubelet.json");
        fs::write(&configuration, self.configuration(machine)?)?;
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
    fn configuration(&self, machine: &Machine) -> Result<String> {
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
