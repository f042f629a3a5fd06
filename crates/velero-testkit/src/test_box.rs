//! A box: a whole Kubernetes with an S3 store, from real parts, on this machine.
//!
//! Every box is a [`Machine`] of its own; the store is one more machine that all boxes share, so that a backup made on
//! one can be restored on another. The store comes with the first box and goes with the last.

mod openshift;
mod storage;

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::install;
use crate::machine::{self, Machine, links};
use crate::parts::{
    self, ACCESS_KEY, BUCKET, Certificates, Containerd, CoreDns, CsiDriver, Door, Etcd, Images, KubeApiserver,
    KubeControllerManager, KubeProxy, KubeScheduler, Kubelet, KubernetesRelease, OpenShiftStandin, Part, SECRET_KEY,
    STORE_ADDRESS, STORE_NETWORK, STORE_PORT, SeaweedFs, StorePart, start_together,
};
use crate::progress::say;

/// The machine of the store; no box may take this name.
pub(crate) const STORE: &str = "store";

/// How much of a cluster a box is; each kind has all that the kinds before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BoxKind {
    /// API server and controllers, no node: for tests that need only the API.
    ControlPlane,
    /// A node as well: pods run.
    Whole,
    /// Storage as well: claims get volumes, and volumes snapshots, from a CSI driver.
    Storage,
    /// What stands in for OpenShift as well: its types, image streams, a registry of its own.
    OpenShift,
}

/// What is particular of a box, for as long as it is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Particulars {
    is_roomy: bool,
    release: KubernetesRelease,
}

impl Particulars {
    fn of(machine: &Machine) -> Self {
        Self { is_roomy: machine.is_roomy(), release: machine.kubernetes_release() }
    }

    /// Tells the parts of a machine before they are started.
    fn apply_to(self, machine: &Machine) -> Result<()> {
        if self.is_roomy {
            machine.make_roomy()?;
        }
        machine.run_kubernetes(self.release)
    }
}

/// A box that is up.
#[derive(Clone, Debug)]
pub struct TestBox {
    machine: Machine,
    kind: BoxKind,
}

impl TestBox {
    /// Brings a box up. One that is up already is given as it is, with a node and storage added where they are wanted
    /// and missing. On failure nothing is left behind.
    pub fn up(name: &str, kind: BoxKind) -> Result<Self> {
        Self::up_with(name, kind, Particulars::default())
    }

    /// Brings a control plane up that holds millions of objects, which it pays for: its controllers are few, and it keeps
    /// no audit log.
    pub fn up_roomy(name: &str) -> Result<Self> {
        Self::up_with(name, BoxKind::ControlPlane, Particulars { is_roomy: true, ..Particulars::default() })
    }

    /// Brings a control plane of that release up. It cannot grow: only the usual release has what nodes need.
    pub fn up_with_kubernetes(name: &str, release: KubernetesRelease) -> Result<Self> {
        Self::up_with(name, BoxKind::ControlPlane, Particulars { release, ..Particulars::default() })
    }

    fn up_with(name: &str, kind: BoxKind, particulars: Particulars) -> Result<Self> {
        if kind >= BoxKind::Storage {
            // Cargo may have to wait for another build: that is no reason to keep others from their boxes.
            CsiDriver::default().install()?;
        }
        if kind >= BoxKind::OpenShift {
            OpenShiftStandin.install()?;
        }
        let _lock = lock()?;
        check_name(name)?;
        install::check_machine()?;
        Self::install(kind)?;
        install::kubernetes_of(particulars.release)?;
        if let Some(running) = Self::find(name) {
            let found = Particulars::of(&running.machine);
            ensure!(found == particulars, "box {name} is up with {found:?}, not {particulars:?}; take it down first");
            return running.grow(kind);
        }
        destroy(name)?;
        Self::start(name, kind, particulars).inspect_err(|_| {
            let _ = destroy(name);
            let _ = stop_unused_store();
        })
    }

    /// Gets everything a box of that kind is made of; quick when it is already there.
    pub fn install(kind: BoxKind) -> Result<()> {
        install::debian_packages()?;
        let mut parts: Vec<&dyn Part> = vec![&Etcd, &KubeApiserver, &SeaweedFs];
        if kind >= BoxKind::Whole {
            parts.extend([&Images as &dyn Part, &CoreDns]);
        }
        let driver = CsiDriver::default();
        parts.extend(openshift::parts_beyond_node(kind, &driver));
        parts.iter().try_for_each(|part| part.install().with_context(|| format!("cannot install {}", part.name())))
    }

    fn start(name: &str, kind: BoxKind, particulars: Particulars) -> Result<Self> {
        let number = free_number()?;
        let port = links::host_port(number);
        let api_door = Door::new("api-door", port, format!("127.0.0.1:{port}"));
        let store = start_store()?;
        say(format!("box {name}: starting the control plane"));
        let machine = Machine::create(name, number)?;
        particulars.apply_to(&machine)?;
        machine.add_node_interface()?;
        machine.connect_to_hub(&store, STORE_NETWORK)?;
        let store_on_loopback = [
            format!("TCP-LISTEN:{STORE_PORT},bind=127.0.0.1,fork,reuseaddr"),
            format!("TCP:{STORE_ADDRESS}:{STORE_PORT}"),
        ];
        machine.start("store-on-loopback", "socat", store_on_loopback)?;

        start_together(&machine, &[&Certificates, &Etcd])?;
        start_together(&machine, &[&KubeApiserver, &api_door])?;
        say(format!("box {name}: the API server is ready"));
        start_together(&machine, &[&KubeControllerManager])?;
        let test_box = Self { machine, kind: BoxKind::ControlPlane };
        test_box.remember()?;
        test_box.grow(kind)
    }

    fn grow(mut self, kind: BoxKind) -> Result<Self> {
        if self.kind < BoxKind::Whole && kind >= BoxKind::Whole {
            self = self.add_node()?;
        }
        if self.kind < BoxKind::Storage && kind >= BoxKind::Storage {
            self = self.add_storage()?;
        }
        if self.kind < BoxKind::OpenShift && kind >= BoxKind::OpenShift {
            self = self.add_openshift()?;
        }
        Ok(self)
    }

    fn add_node(mut self) -> Result<Self> {
        start_together(&self.machine, &[&Containerd])?;
        start_together(&self.machine, &[&Images])?;
        start_together(&self.machine, &[&KubeScheduler, &Kubelet, &KubeProxy, &CoreDns])?;
        say(format!("box {}: the node is ready", self.machine.name));
        self.kind = BoxKind::Whole;
        self.remember()?;
        Ok(self)
    }

    fn remember(&self) -> Result<()> {
        fs::write(self.machine.state().join("kind.json"), serde_json::to_vec(&self.kind)?)?;
        Ok(())
    }

    /// Takes a box down and leaves nothing of it behind, whatever state it was in. The last box takes the store along;
    /// while a box uses the store it cannot be taken down.
    pub fn down(name: &str) -> Result<()> {
        let _lock = lock()?;
        let users: Vec<String> =
            Machine::all().into_iter().map(|machine| machine.name).filter(|user| user != STORE).collect();
        ensure!(name != STORE || users.is_empty(), "boxes use the store, take them down first: {}", users.join(", "));
        destroy(name)?;
        stop_unused_store()
    }

    /// The box of that name, if it is up.
    pub fn find(name: &str) -> Option<Self> {
        let machine = Machine::find(name)?;
        let kind = serde_json::from_slice(&fs::read(machine.state().join("kind.json")).ok()?).ok()?;
        Some(Self { machine, kind })
    }

    /// The names of all boxes, also of those that died and left their state behind.
    pub fn names() -> Vec<String> {
        Machine::names().into_iter().filter(|name| name != STORE).collect()
    }

    /// How each part of the box fares: its name, and what it lacks if it does not work.
    pub fn status(&self) -> Vec<(&'static str, Result<()>)> {
        let mut parts: Vec<&dyn Part> = vec![&Etcd, &KubeApiserver, &KubeControllerManager];
        if self.kind >= BoxKind::Whole {
            parts.extend([&KubeScheduler as &dyn Part, &Containerd, &Images, &Kubelet, &KubeProxy, &CoreDns]);
        }
        let driver = CsiDriver::default();
        parts.extend(openshift::parts_beyond_node(self.kind, &driver));
        let mut status: Vec<_> = parts.iter().map(|part| (part.name(), part.check(&self.machine))).collect();
        let store = Machine::find(STORE).context("the store is not up").and_then(|store| SeaweedFs.check(&store));
        status.push((SeaweedFs.name(), store));
        status
    }

    /// What a shell needs to use the box, as names and values. The addresses work on this host and inside the box;
    /// only pods need [`TestBox::store_url_for_pods`].
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("KUBECONFIG", Certificates::kubeconfig(&self.machine).display().to_string()),
            ("AWS_ENDPOINT_URL", Self::store_url()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.into()),
            ("AWS_REGION", "us-east-1".into()),
            ("VELERO_BOX_NAME", self.machine.name.clone()),
            ("VELERO_BOX_BUCKET", BUCKET.into()),
            ("VELERO_BOX_S3_FOR_PODS", Self::store_url_for_pods()),
            ("VELERO_BOX_NAMESPACE", self.machine.network_namespace().display().to_string()),
        ]
    }

    /// The store's address on loopback, on this host and inside every box.
    pub fn store_url() -> String {
        format!("http://127.0.0.1:{STORE_PORT}")
    }

    /// The store's address as pods see it; the node and the tests inside the box see it too.
    pub fn store_url_for_pods() -> String {
        format!("http://{STORE_ADDRESS}:{STORE_PORT}")
    }

    /// Makes a bucket in the store; one that exists is fine.
    pub fn make_bucket(bucket: &str) -> Result<()> {
        Machine::find(STORE).context("the store is not up")?.make_bucket(bucket)
    }

    /// Removes a bucket of the store with everything in it: what a measurement leaves there is missing for others.
    pub fn remove_bucket(bucket: &str) -> Result<()> {
        Machine::find(STORE).context("the store is not up")?.remove_bucket(bucket)
    }

    /// Starts a part in the machine of the store, behind a door of its own on loopback; one that works is left as it is.
    /// It ends with the store.
    pub fn start_in_store(part: &dyn StorePart) -> Result<()> {
        let _lock = lock()?;
        part.install().with_context(|| format!("cannot install {}", part.name()))?;
        let store = Machine::find(STORE).context("the store is not up: bring a box up first")?;
        let door = part.door();
        if part.check(&store).is_ok() && door.check(&store).is_ok() {
            return Ok(());
        }
        door.stop(&store)?;
        part.stop(&store)?;
        say(format!("starting {} in the store", part.name()));
        start_together(&store, &[part, &door])
    }

    /// The machine the box runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How much of a cluster it is.
    pub fn kind(&self) -> BoxKind {
        self.kind
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        Certificates::kubeconfig(&self.machine)
    }
}

/// Ends a machine, and first what of this process is inside it.
fn destroy(name: &str) -> Result<()> {
    parts::forget(name);
    Machine::destroy(name)
}

fn start_store() -> Result<Machine> {
    if let Some(store) = Machine::find(STORE) {
        return Ok(store);
    }
    let door = Door::new("store-door", STORE_PORT, format!("{STORE_ADDRESS}:{STORE_PORT}"));
    door.wait_until_free()?;
    Machine::destroy(STORE)?;
    say("starting the S3 store");
    let store = Machine::create(STORE, u8::MAX)?;
    let started = store.add_hub(STORE_ADDRESS).and_then(|()| start_together(&store, &[&SeaweedFs, &door]));
    if let Err(error) = started {
        Machine::destroy(STORE)?;
        return Err(error);
    }
    Ok(store)
}

fn stop_unused_store() -> Result<()> {
    if Machine::all().iter().all(|machine| machine.name == STORE) {
        Machine::destroy(STORE)?;
    }
    Ok(())
}

fn free_number() -> Result<u8> {
    let taken: Vec<u8> = Machine::all().iter().map(|machine| machine.number).collect();
    let unused: Vec<u8> = (0..links::MOST_BOXES).filter(|number| !taken.contains(number)).collect();
    // Something else may have the port of a number; where nothing is left, the first is waited for.
    let free = unused.iter().find(|number| links::is_free(links::host_port(**number)));
    free.or(unused.first()).copied().with_context(|| {
        format!("{} boxes are up already: take one down (cargo xtask cluster status lists them)", links::MOST_BOXES)
    })
}

fn check_name(name: &str) -> Result<()> {
    let fits = name.len() <= 20 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if name == STORE || name.is_empty() || !fits {
        bail!("a box cannot be named {name:?}: use up to 20 lower-case letters, digits and dashes, and not {STORE:?}");
    }
    Ok(())
}

/// Boxes come and go one at a time: numbers and the shared store are decided under this lock.
fn lock() -> Result<File> {
    let root = crate::cache::root()?;
    fs::create_dir_all(&root)?;
    let lock = File::create(root.join(format!("boxes{}.lock", machine::set_suffix())))?;
    lock.lock().context("cannot lock the boxes")?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_box_name_is_short_and_plain_and_not_the_stores() {
        for good in ["box", "box-2", "a"] {
            check_name(good).unwrap();
        }
        for bad in ["", "store", "Box", "a/b", "..", "a name", "a-name-that-is-far-too-long"] {
            assert!(check_name(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
