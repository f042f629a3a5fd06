//! The parts of a box, one file each. A part knows how it is installed, started, checked and stopped; the order in
//! which parts start is the business of [`crate::test_box`].

mod api_client;
mod apply;
mod azurite;
mod certificates;
mod container_registry;
mod containerd;
mod coredns;
mod csi_driver;
mod door;
mod etcd;
mod gcs_gateway;
mod images;
mod internal_registry;
mod kube_apiserver;
mod kube_controller_manager;
mod kube_proxy;
mod kube_scheduler;
mod kubectl;
mod kubelet;
mod kubernetes;
mod moto;
mod openshift_definitions;
mod openshift_standin;
mod room;
mod seaweedfs;
mod sidecars;
mod snapshot_definitions;
mod storage_classes;
mod velero_definitions;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::machine::{Machine, wait_until};

pub(crate) use api_client::{client, forget};
pub use azurite::{AZURE_ACCOUNT, AZURE_CONTAINER, AZURE_KEY, Azurite};
pub use certificates::Certificates;
pub use container_registry::ContainerRegistryPart;
pub use containerd::Containerd;
pub use coredns::CoreDns;
pub use csi_driver::CsiDriver;
pub use door::Door;
pub(crate) use etcd::ENDPOINT as ETCD_ENDPOINT;
pub use etcd::Etcd;
pub use gcs_gateway::{GCS_BUCKET, GcsGateway};
pub use images::{Images, WORKLOAD_IMAGE};
pub use internal_registry::InternalRegistry;
pub use kube_apiserver::KubeApiserver;
pub use kube_controller_manager::{CLAIMS_EVERY, KubeControllerManager};
pub use kube_proxy::KubeProxy;
pub use kube_scheduler::KubeScheduler;
pub use kubelet::{Kubelet, NODE_NAME};
pub use kubernetes::KubernetesRelease;
pub(crate) use moto::texts;
pub use moto::{MOTO_REGION, Moto};
pub use openshift_definitions::OpenShiftDefinitions;
pub use openshift_standin::OpenShiftStandin;
pub use seaweedfs::{ACCESS_KEY, BUCKET, SECRET_KEY, STORE_ADDRESS, STORE_NETWORK, STORE_PORT, SeaweedFs};
pub use sidecars::{SIDECARS, Sidecar};
pub use snapshot_definitions::SnapshotDefinitions;
pub use storage_classes::{GROUP_SNAPSHOT_CLASS, SNAPSHOT_CLASS, STORAGE_CLASS, StorageClasses};

/// One part of a box.
pub trait Part {
    /// The name, also that of its process and its log.
    fn name(&self) -> &'static str;

    /// Gets what the part is made of; quick when it is already there.
    fn install(&self) -> Result<()>;

    /// Starts the part and returns at once.
    fn start(&self, machine: &Machine) -> Result<()>;

    /// Succeeds once the part does its work; the error says what it lacks.
    fn check(&self, machine: &Machine) -> Result<()>;

    /// Stops the part alone; taking the whole machine down needs no part's help.
    fn stop(&self, machine: &Machine) -> Result<()> {
        machine.stop(self.name())
    }

    /// How long the part may take from its start to its first successful check.
    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// A part that runs in the store's machine, and only for the tests that ask for it.
pub trait StorePart: Part {
    /// Its door on this host's loopback.
    fn door(&self) -> Door;
}

/// Starts parts that do not need each other, then waits until each does its work.
pub fn start_together(machine: &Machine, parts: &[&dyn Part]) -> Result<()> {
    for part in parts {
        part.start(machine).with_context(|| format!("cannot start {}", part.name()))?;
    }
    for part in parts {
        wait_until(part.name(), part.deadline(), || part.check(machine))
            .with_context(|| format!("{} did not come up, log: {}", part.name(), machine.log(part.name()).display()))?;
    }
    Ok(())
}

/// Asks an address inside the machine over HTTP(S) and wants a good answer.
fn answers(machine: &Machine, url: &str) -> Result<()> {
    // Starting curl takes from the cores, many times over, what a part needs that has yet to open its port.
    ensure!(port_of(url).is_none_or(|port| machine.is_listening(port)), "nobody listens at {url}");
    let answer = machine.run("curl", ["--silent", "--insecure", "--fail", "--max-time", "5", url])?;
    ensure!(!answer.contains("[-]"), "{url} answers {answer}");
    Ok(())
}

/// The port in an address, if it names one.
fn port_of(url: &str) -> Option<u16> {
    let (_, address) = url.split_once("://")?;
    address.split('/').next()?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn an_address_may_name_a_port() {
        for (url, port) in [
            ("https://127.0.0.1:6443/readyz", Some(6443)),
            ("http://user:word@10.0.0.1:5000/v2/", Some(5000)),
            ("http://user:word@registry/v2/", None),
            ("http://registry/v2:80", None),
        ] {
            assert_eq!(port_of(url), port, "{url}");
        }
    }
}
