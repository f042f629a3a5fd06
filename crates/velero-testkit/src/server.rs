//! A Velero server in a box: the original, or ours. Both are installed, started and asked in the same way; that they can
//! be is part of what "drop-in" means.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::install::{self, PEER_VERSION};
use crate::machine::{Machine, wait_until};
use crate::parts::{ACCESS_KEY, BUCKET, Certificates, SECRET_KEY};
use crate::test_box::{BoxKind, TestBox};
use crate::tool::Tool;

/// Which Velero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// The original Velero with its AWS plugin: the reference we compare with.
    Peer,
    /// Ours, built for tests.
    Ours,
    /// Ours, built for speed.
    OursReleased,
    /// Ours, built for speed but not as a whole, which takes a fraction of the time.
    OursQuick,
}

impl Edition {
    /// The binary, built if needed.
    pub fn binary(self) -> Result<PathBuf> {
        self.profile().map_or_else(|| Tool::Velero.path(), install::our_binary)
    }

    /// What holds a pod until its volumes have their data, built if needed.
    pub fn restore_helper(self) -> Result<PathBuf> {
        let ours = |profile: &str| install::package_binary("velero", "velero-restore-helper", profile);
        self.profile().map_or_else(|| Tool::VeleroRestoreHelper.path(), ours)
    }

    /// The profile ours is built with; the original has none.
    fn profile(self) -> Option<&'static str> {
        match self {
            Self::Peer => None,
            Self::Ours => Some("dev"),
            Self::OursReleased => Some("release"),
            Self::OursQuick => Some("quick"),
        }
    }

    /// Builds what this edition runs from.
    pub fn install(self) -> Result<()> {
        self.binary()?;
        if self == Self::Peer { Tool::VeleroPluginForAws.path().map(drop) } else { Ok(()) }
    }

    /// The name of the server's process in a box.
    fn process(self) -> &'static str {
        if self == Self::Peer { "peer" } else { "velero" }
    }

    /// Ports apart, so that both can serve side by side in one box.
    fn ports(self) -> [&'static str; 2] {
        match self {
            Self::Peer => ["--metrics-address=:8085", "--profiler-address=localhost:6060"],
            _ => ["--metrics-address=:8086", "--profiler-address=localhost:6061"],
        }
    }
}

/// Gets everything a whole box, both editions and the tests run from, also that of a thorough run, or not. Tests get nothing by
/// themselves.
pub fn install_all(thorough: bool) -> Result<()> {
    install_tools(thorough)?;
    TestBox::install(BoxKind::OpenShift)
}

/// Gets what is not our own: packages and tools, also those that only a thorough run needs, or not.
pub fn install_tools(thorough: bool) -> Result<()> {
    install::all_packages()?;
    for tool in Tool::ALL.into_iter().filter(|tool| thorough || !tool.is_for_thorough_runs()) {
        tool.path().with_context(|| format!("cannot get {}", tool.name()))?;
    }
    Ok(())
}

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The namespace it serves.
    pub namespace: String,
    /// The bucket its default location uses; it is made if missing.
    pub bucket: String,
    /// The prefix in that bucket.
    pub prefix: String,
    /// Further flags of the server.
    pub flags: Vec<String>,
    /// Plugin binaries it is to run.
    pub plugins: Vec<PathBuf>,
    /// How the server reaches the API server; nothing means the box's own kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Where it puts temporary files, a folder that the box sees; nothing means the folder of the server.
    pub scratch: Option<PathBuf>,
    /// Flags of `velero install` for the node agents of this edition; nothing means that there are none.
    pub node_agents: Option<Vec<String>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            namespace: "velero".into(),
            bucket: BUCKET.into(),
            prefix: String::new(),
            flags: Vec::new(),
            plugins: Vec::new(),
            kubeconfig: None,
            scratch: None,
            node_agents: None,
        }
    }
}

/// A Velero server that runs inside a box, and its command line.
pub struct VeleroServer {
    machine: Machine,
    edition: Edition,
    options: ServerOptions,
}

impl VeleroServer {
    /// Installs the server's resources into the box and starts it there.
    pub fn up(test_box: &TestBox, edition: Edition, options: ServerOptions) -> Result<Self> {
        let server = Self { machine: test_box.machine().clone(), edition, options };
        server.install_resources()?;
        server.start()?;
        server.wait_for_location("default")?;
        if server.options.node_agents.is_some() {
            server.wait_for_agents()?;
        }
        Ok(server)
    }

    /// Stops the server of that edition in a box; its resources stay.
    pub fn down(test_box: &TestBox, edition: Edition) -> Result<()> {
        test_box.machine().stop(edition.process())
    }

    /// Stops the server; its resources stay.
    pub fn stop(&self) -> Result<()> {
        self.machine.stop(self.edition.process())
    }

    /// Ends the server at once, as a machine that loses its power would.
    pub fn kill(&self) -> Result<()> {
        let process = self.process()?.to_string();
        let status = Command::new("kill").args(["-KILL", &process]).status()?;
        ensure!(status.success(), "cannot kill the server, process {process}");
        self.stop()
    }

    /// Starts the server.
    pub fn start(&self) -> Result<()> {
        let folder = self.machine.folder(self.edition.process())?;
        let plugins = self.machine.folder(&format!("{}/plugins", self.edition.process()))?;
        if self.edition == Edition::Peer {
            fs::copy(Tool::VeleroPluginForAws.path()?, plugins.join("velero-plugin-for-aws"))?;
        }
        for plugin in &self.options.plugins {
            let name = plugin.file_name().context("a plugin without a file name")?;
            // A killed server's plugins may still run: their file can be replaced, not written to.
            let _ = fs::remove_file(plugins.join(name));
            fs::copy(plugin, plugins.join(name)).with_context(|| format!("cannot copy {}", plugin.display()))?;
        }
        let credentials = folder.join("cloud");
        fs::write(&credentials, credentials_file())?;
        let kubeconfig = self.options.kubeconfig.clone().unwrap_or_else(|| Certificates::kubeconfig(&self.machine));
        let mut shell = self.machine.command("sh");
        shell
            .env("KUBECONFIG", kubeconfig)
            .env("AWS_SHARED_CREDENTIALS_FILE", &credentials)
            .env("VELERO_NAMESPACE", &self.options.namespace)
            .env("HOME", &folder)
            .env("TMPDIR", self.options.scratch.as_ref().unwrap_or(&folder));
        let mut arguments = vec!["server".to_owned(), format!("--namespace={}", self.options.namespace)];
        arguments.push(format!("--plugin-dir={}", plugins.display()));
        arguments.extend(self.edition.ports().map(str::to_owned));
        arguments.extend(self.options.flags.iter().cloned());
        self.machine.start_command(self.edition.process(), shell, self.edition.binary()?, arguments)
    }

    /// Starts another edition in the place of this one, which must have been stopped. Everything else stays as it is, the
    /// node agents too.
    pub fn replaced_by(&self, edition: Edition) -> Result<Self> {
        let server = Self { machine: self.machine.clone(), edition, options: self.options.clone() };
        server.start()?;
        server.wait_for_location("default")?;
        Ok(server)
    }

    /// Waits until a storage location of this server is available.
    pub fn wait_for_location(&self, location: &str) -> Result<()> {
        let log = self.log();
        wait_until("the storage location", Duration::from_secs(60), || {
            let phase = &self.object("backupstoragelocations", location)?["status"]["phase"];
            ensure!(phase == "Available", "{location} is {phase}, the server's log: {}", log.display());
            Ok(())
        })
        .or_else(|reason| {
            let ended = !self.machine.is_running(self.edition.process());
            if ended { bail!("the server ended, log: {}", log.display()) } else { Err(reason) }
        })
    }

    /// The path of a list of Velero's objects in the namespace of this server, such as its `backups`.
    pub fn path(&self, plural: &str) -> String {
        format!("/apis/velero.io/v1/namespaces/{}/{plural}", self.options.namespace)
    }

    /// An object of Velero in the namespace of this server, such as one of its `backups`.
    pub fn object(&self, plural: &str, name: &str) -> Result<Value> {
        self.machine.read(&format!("{}/{name}", self.path(plural)))
    }

    /// Runs this edition's command line against this server and gives what it printed; a failure is an error.
    pub fn velero(&self, arguments: &[&str]) -> Result<String> {
        self.velero_of(self.edition, arguments)
    }

    /// Runs the command line of any edition against this server and gives what it printed; a failure is an error.
    pub fn velero_of(&self, edition: Edition, arguments: &[&str]) -> Result<String> {
        let output = self.command(edition)?.args(arguments).output()?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "velero {} of {edition:?}: {stdout}{stderr}", arguments.join(" "));
        Ok(stdout)
    }

    /// The command line of any edition inside the box, pointed at this server's namespace.
    pub fn command(&self, edition: Edition) -> Result<Command> {
        let mut command = self.machine.command(edition.binary()?);
        command
            .args(["--namespace", &self.options.namespace, "--colorized=false"])
            .env("KUBECONFIG", Certificates::kubeconfig(&self.machine))
            .env("HOME", self.machine.state());
        Ok(command)
    }

    /// Which Velero it is.
    pub fn edition(&self) -> Edition {
        self.edition
    }

    /// How it runs.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The namespace the server serves.
    pub fn namespace(&self) -> &str {
        &self.options.namespace
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The number of its process on this host, to read its memory.
    pub fn process(&self) -> Result<u32> {
        self.machine.host_process(self.edition.process())
    }

    /// A folder of the server: its home, and where it and its plugins put temporary files.
    pub fn folder(&self) -> Result<PathBuf> {
        self.machine.folder(self.edition.process())
    }

    /// The log of the server.
    pub fn log(&self) -> PathBuf {
        self.machine.log(self.edition.process())
    }

    fn install_resources(&self) -> Result<()> {
        TestBox::make_bucket(&self.options.bucket)?;
        // Those of the original equal ours (tests/stories/peer_custom_resources.rs).
        self.machine.install_velero_definitions()?;
        let namespace = &self.options.namespace;
        let namespace_object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        for object in [namespace_object, location(&self.options)] {
            self.machine.apply(&object.to_string())?;
        }
        match &self.options.node_agents {
            Some(flags) => self.install_agents(flags),
            None => self.machine.apply(&deployment(namespace).to_string()),
        }
    }
}

/// Credentials for the store as variables.
pub const STORE_KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];

/// Credentials for the store in the form of Velero's AWS plugin.
pub fn credentials_file() -> String {
    format!("[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
}

/// The original wants a Deployment of its name in its namespace, or every restore has an error; it need not run.
fn deployment(namespace: &str) -> Value {
    let labels = json!({"deploy": "velero"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "velero", "namespace": namespace, "labels": {"component": "velero"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "velero", "image": format!("velero/velero:{PEER_VERSION}")}]},
            },
        },
    })
}

fn location(options: &ServerOptions) -> Value {
    // What pods reach, the server reaches too.
    let store = if options.node_agents.is_some() { TestBox::store_url_for_pods() } else { TestBox::store_url() };
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": {"name": "default", "namespace": options.namespace},
        "spec": {
            "provider": "aws",
            "default": true,
            "objectStorage": {"bucket": options.bucket, "prefix": options.prefix},
            "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": store},
        },
    })
}
