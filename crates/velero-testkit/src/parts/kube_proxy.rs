//! kube-proxy: service addresses work inside the box.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{Certificates, NODE_NAME, Part, answers};
use crate::install;
use crate::machine::Machine;

/// Routes service addresses to pods with iptables.
pub struct KubeProxy;

impl Part for KubeProxy {
    fn name(&self) -> &'static str {
        "kube-proxy"
    }

    fn install(&self) -> Result<()> {
        install::kubernetes().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let untouched = json!({"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"});
        let configuration = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": machine.pod_range(),
            "hostnameOverride": NODE_NAME,
            "clientConnection": {"kubeconfig": Certificates::kubeconfig(machine)},
            "conntrack": untouched,
        });
        let path = machine.state().join("kube-proxy.json");
        fs::write(&path, configuration.to_string())?;
        machine.start(self.name(), machine.kubernetes()?.join(self.name()), [format!("--config={}", path.display())])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, "http://127.0.0.1:10256/livez")
    }
}
