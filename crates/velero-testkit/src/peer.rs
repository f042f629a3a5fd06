//! The original Velero with its AWS plugin, running against a box: the reference we compare with.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::install::{self, PEER_VERSION};
use crate::machine::{Machine, wait_until};
use crate::parts::{ACCESS_KEY, BUCKET, Certificates, SECRET_KEY};
use crate::test_box::{BoxKind, TestBox};

const SERVER: &str = "peer";

/// How the peer is to run.
pub struct PeerOptions {
    /// The namespace it serves.
    pub namespace: String,
    /// The bucket its default location uses; it is made if missing.
    pub bucket: String,
    /// The prefix in that bucket.
    pub prefix: String,
    /// Further flags of its server.
    pub flags: Vec<String>,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self { namespace: "velero".into(), bucket: BUCKET.into(), prefix: String::new(), flags: Vec::new() }
    }
}

/// The peer's server, running inside a box, and its command line.
pub struct Peer {
    machine: Machine,
    namespace: String,
}

impl Peer {
    /// Builds the peer's binary.
    pub fn binary() -> Result<PathBuf> {
        let version = format!("-X github.com/vmware-tanzu/velero/pkg/buildinfo.Version={PEER_VERSION}");
        install::go_binary("velero", ".", &version)
    }

    /// Builds the peer and its plugin, and everything a whole box needs.
    pub fn install() -> Result<()> {
        TestBox::install(BoxKind::Whole)?;
        Self::binary()?;
        Self::aws_plugin().map(drop)
    }

    fn aws_plugin() -> Result<PathBuf> {
        let package = "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws";
        install::go_binary("velero-plugin-for-aws", package, "")
    }

    /// Installs the peer's resources into the box and starts its server there.
    pub fn up(test_box: &TestBox, options: &PeerOptions) -> Result<Self> {
        let machine = test_box.machine().clone();
        let peer = Self { machine, namespace: options.namespace.clone() };
        peer.install_resources(options)?;
        peer.start_server(&options.flags)?;
        wait_until("the peer's storage location", Duration::from_secs(60), || {
            ensure!(peer.machine.is_running(SERVER), "its server ended, log: {}", peer.machine.log(SERVER).display());
            let phase = "-o=jsonpath={.status.phase}";
            let phase =
                peer.machine.kubectl(&["-n", &peer.namespace, "get", "backupstoragelocation", "default", phase])?;
            ensure!(phase == "Available", "the location is {phase:?}, log: {}", peer.machine.log(SERVER).display());
            Ok(())
        })?;
        Ok(peer)
    }

    /// Stops the peer's server; its resources stay.
    pub fn down(test_box: &TestBox) -> Result<()> {
        test_box.machine().stop(SERVER)
    }

    /// Starts the server again with other flags.
    pub fn restart(&self, flags: &[String]) -> Result<()> {
        self.machine.stop(SERVER)?;
        self.start_server(flags)
    }

    /// Runs the peer's command line inside the box and gives what it printed.
    pub fn velero(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.machine.command(Self::binary()?);
        let output = command
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .env("KUBECONFIG", Certificates::kubeconfig(&self.machine))
            .env("HOME", self.machine.state())
            .output()?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "velero {}: {stdout}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(stdout)
    }

    /// The namespace the peer serves.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The number of its server process on this host, to read its memory.
    pub fn server_process(&self) -> Result<u32> {
        self.machine.host_process(SERVER)
    }

    /// The log of its server.
    pub fn server_log(&self) -> PathBuf {
        self.machine.log(SERVER)
    }

    fn install_resources(&self, options: &PeerOptions) -> Result<()> {
        TestBox::make_bucket(&options.bucket)?;
        let definitions = self.velero(&["install", "--crds-only", "--dry-run", "-o", "yaml"])?;
        self.machine.apply(&definitions).context("cannot install the peer's custom resource definitions")?;
        let kinds = ["crd", "backups.velero.io", "restores.velero.io", "backupstoragelocations.velero.io"];
        self.machine.kubectl(&[&["wait", "--for=condition=Established", "--timeout=30s"], &kinds[..]].concat())?;
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}),
            deployment(&self.namespace),
            location(options),
        ] {
            self.machine.apply(&object.to_string())?;
        }
        Ok(())
    }

    fn start_server(&self, flags: &[String]) -> Result<()> {
        let folder = self.machine.folder("peer")?;
        let plugins = self.machine.folder("peer/plugins")?;
        let plugin = plugins.join("velero-plugin-for-aws");
        let _ = fs::remove_file(&plugin);
        let source = Self::aws_plugin()?;
        fs::copy(&source, &plugin).or_else(|_| symlink(&source, &plugin).map(|()| 0))?;
        let credentials = folder.join("cloud");
        fs::write(
            &credentials,
            format!("[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"),
        )?;
        let mut shell = self.machine.command("sh");
        shell
            .env("KUBECONFIG", Certificates::kubeconfig(&self.machine))
            .env("AWS_SHARED_CREDENTIALS_FILE", &credentials)
            .env("VELERO_NAMESPACE", &self.namespace)
            .env("HOME", &folder)
            .env("TMPDIR", &folder);
        let fixed = [
            "server".to_owned(),
            format!("--namespace={}", self.namespace),
            format!("--plugin-dir={}", plugins.display()),
        ];
        self.machine.start_command(SERVER, shell, Self::binary()?, fixed.iter().chain(flags))
    }
}

/// The peer wants a Deployment of its name in its namespace, or every restore has an error; it need not run.
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

fn location(options: &PeerOptions) -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": {"name": "default", "namespace": options.namespace},
        "spec": {
            "provider": "aws",
            "default": true,
            "objectStorage": {"bucket": options.bucket, "prefix": options.prefix},
            "config": {"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": TestBox::store_url()},
        },
    })
}
