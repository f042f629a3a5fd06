//! The box that is tortured: a server behind two proxies, its agents and plugin, and what there is to back up.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde_json::json;
use velero_testkit::api_proxy::ApiProxy;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::progress::say;
use velero_testkit::{
    BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, faulty_proxy, harness, install, objects,
};

use super::faults::{ApiWeather, StoreWeather, Weather, of_pods};
use super::options::Options;
use super::sources::{self, Source};

/// The password of the repositories; it must not be in any log.
pub(super) const REPOSITORY_PASSWORD: &str = "torture-repository-password";
/// The namespace of the server.
const NAMESPACE: &str = "velero";
/// Short times, so that what has to end ends soon, and short pages.
const FLAGS: [&str; 9] = [
    "--backup-sync-period=3s",
    "--item-operation-sync-frequency=1s",
    "--resource-timeout=20s",
    "--fs-backup-timeout=90s",
    "--default-item-operation-timeout=90s",
    "--concurrent-backups=4",
    "--store-validation-frequency=5s",
    "--log-level=debug",
    // What is backed up are few objects: so their lists have several pages, which can expire.
    "--client-page-size=3",
];
const PLUGIN: &str = "velero-plugin-example";
/// How long agents may take to work again.
const UNTIL_AGENTS: Duration = Duration::from_secs(120);
const SCRATCH_SIZE: &str = "size=48m";

/// Everything that is struck, and the random numbers that say how.
pub(super) struct Stage {
    pub(super) cluster: TestCluster,
    pub(super) machine: Machine,
    pub(super) server: VeleroServer,
    pub(super) prefix: String,
    pub(super) api: Weather,
    pub(super) store: Weather,
    pub(super) sources: Vec<Source>,
    pub(super) random: Rng,
    /// Where logs are kept that the box would write over.
    pub(super) kept: PathBuf,
    scratch: Option<PathBuf>,
    /// Whether the server is down on purpose.
    is_killed: bool,
}

impl Stage {
    pub(super) async fn start(cluster: TestCluster, options: &Options) -> Result<Self> {
        let mut random = Rng::with_seed(options.seed);
        let (machine, test_box) = (cluster.test_box.machine().clone(), &cluster.test_box);
        let (api, store) = (Weather::new(random.fork()), Weather::new(random.fork()));
        let kubeconfig = Some(ApiProxy::start_with(test_box, ApiWeather(api.clone())).await?);
        let prefix = harness::unique_name("torture");
        let has_node = test_box.kind() >= BoxKind::Storage;
        let mut server_options = ServerOptions { prefix: prefix.clone(), kubeconfig, ..ServerOptions::default() };
        server_options.namespace = NAMESPACE.to_owned();
        server_options.flags = FLAGS.map(str::to_owned).to_vec();
        let mut scratch = None;
        if has_node {
            server_options.flags.push("--features=EnableCSI".to_owned());
            server_options.node_agents = Some(vec!["--features=EnableCSI".to_owned()]);
            server_options.plugins = vec![install::package_binary(PLUGIN, PLUGIN, "dev")?];
            scratch = Some(small_disk(&machine)?);
            server_options.scratch.clone_from(&scratch);
        }
        install_password(&machine)?;
        let server = VeleroServer::up(test_box, Edition::Ours, server_options)?;
        lead_through(&server, &store).await?;
        let kept = machine.folder("torture")?;
        say("making what is backed up");
        let sources = sources::make(&cluster, has_node, &mut random).await?;
        let is_killed = false;
        Ok(Self { cluster, machine, server, prefix, api, store, sources, random, kept, scratch, is_killed })
    }

    /// Whether there is a node, with agents and plugins.
    pub(super) fn has_node(&self) -> bool {
        self.cluster.test_box.kind() >= BoxKind::Storage
    }

    /// Ends the server as a machine that loses its power would; `false` where it does not run.
    pub(super) fn kill_server(&mut self) -> Result<bool> {
        if self.server.process().is_err() {
            return Ok(false);
        }
        let killed = self.server.kill();
        // It may just have ended by itself.
        if killed.is_err() && self.server.process().is_err() {
            return Ok(false);
        }
        killed?;
        self.is_killed = true;
        Ok(true)
    }

    /// Starts the server unless it runs.
    pub(super) fn start_server(&mut self) -> Result<()> {
        if self.server.process().is_err() {
            self.keep_log()?;
            self.server.start()?;
        }
        self.is_killed = false;
        Ok(())
    }

    /// Starts a server again that has ended by itself, as a kubelet would; tells whether it had.
    pub(super) fn watch_over_server(&mut self) -> Result<bool> {
        if self.is_killed || self.server.process().is_ok() {
            return Ok(false);
        }
        self.start_server()?;
        Ok(true)
    }

    /// A fresh process of the server.
    pub(super) fn restart_server(&mut self) -> Result<()> {
        self.server.stop()?;
        self.start_server()?;
        self.server.wait_for_location("default")
    }

    /// All that the servers before this one have logged.
    pub(super) fn kept_log(&self) -> PathBuf {
        self.kept.join("server.log")
    }

    /// A server that starts writes over the log of the one before.
    fn keep_log(&self) -> Result<()> {
        let log = fs::read(self.server.log()).unwrap_or_default();
        let mut kept = OpenOptions::new().create(true).append(true).open(self.kept_log())?;
        kept.write_all(&log)?;
        kept.write_all(b"\n==== the next server\n")?;
        Ok(())
    }

    /// Fills the disk of the server's temporary files; `false` where it has none of its own.
    pub(super) fn fill_disk(&self) -> Result<bool> {
        let Some(scratch) = &self.scratch else { return Ok(false) };
        let filler = format!("of={}", scratch.join("filler").display());
        // It ends with the message that there is no room.
        let _ = self.machine.run("dd", ["if=/dev/zero", &filler, "bs=64k"]);
        Ok(true)
    }

    pub(super) fn empty_disk(&self) -> Result<()> {
        let Some(scratch) = &self.scratch else { return Ok(()) };
        self.machine.run("rm", ["-f".to_owned(), scratch.join("filler").display().to_string()]).map(drop)
    }

    /// Waits until all agents work. Those whose kubelet waits before it starts them again, which takes minutes for one that was
    /// killed often, are replaced.
    pub(super) fn refresh_agents(&self) -> Result<()> {
        wait_until("the node agents", UNTIL_AGENTS, || {
            self.replace_agents_that_wait()?;
            // The cluster learns of a kill a little later.
            ensure!(!of_pods(&self.machine, &["node-agent"]).is_empty(), "no node agent runs");
            self.server.check_agents()
        })
    }

    fn replace_agents_that_wait(&self) -> Result<()> {
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        for agent in self.machine.items(&format!("{pods}?labelSelector=name%3Dnode-agent"))? {
            if agent["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff" {
                let name = agent["metadata"]["name"].as_str().unwrap_or_default();
                self.machine.delete_at_once(&format!("{pods}/{name}"))?;
            }
        }
        Ok(())
    }

    /// The path of a list in the server's namespace, whichever version it is of.
    pub(super) fn path(&self, plural: &str) -> String {
        let version = if plural.starts_with("data") { "v2alpha1" } else { "v1" };
        format!("/apis/velero.io/{version}/namespaces/{NAMESPACE}/{plural}")
    }
}

/// A small file system of its own for temporary files; it ends with the box.
fn small_disk(machine: &Machine) -> Result<PathBuf> {
    let scratch = machine.folder("scratch")?;
    let place = scratch.display().to_string();
    let mounted = machine.run("findmnt", ["--noheadings", &place]).is_ok();
    if !mounted {
        machine.run("mount", ["-t", "tmpfs", "-o", SCRATCH_SIZE, "tmpfs", &place])?;
    }
    Ok(scratch)
}

fn install_password(machine: &Machine) -> Result<()> {
    let password = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "velero-repo-credentials", "namespace": NAMESPACE},
        "stringData": {"repository-password": REPOSITORY_PASSWORD},
    });
    [objects::namespace(NAMESPACE), password].iter().try_for_each(|object| machine.apply(&object.to_string()))
}

/// Has the location of a server lead through a proxy that pods reach too.
async fn lead_through(server: &VeleroServer, weather: &Weather) -> Result<()> {
    let address = server.machine().node_address();
    let rule = StoreWeather(weather.clone());
    let url = faulty_proxy::start_at(address, &TestBox::store_url_for_pods(), rule).await?;
    let known = server.object("backupstoragelocations", "default")?;
    let mut location = json!({
        "apiVersion": known["apiVersion"], "kind": known["kind"], "spec": known["spec"],
        "metadata": {"name": "default", "namespace": server.namespace()},
    });
    ensure!(location["spec"]["config"].is_object(), "the location has no config: {known}");
    location["spec"]["config"]["s3Url"] = json!(url);
    server.machine().apply(&location.to_string())?;
    server.wait_for_location("default")
}
