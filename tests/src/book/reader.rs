//! Somebody who reads a page and types every command of it, at clusters of their own.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use velero_testkit::image::Image;
use velero_testkit::machine::Machine;
use velero_testkit::parts::{ACCESS_KEY, Certificates, Images, SECRET_KEY};
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, Edition, TestBox, Tool, install};

use super::blocks::{Command, Tally};
use super::page::Page;

/// The image that is installed when no other is named.
const IMAGE: &str = concat!("ghcr.io/velero-rust/velero:v", env!("CARGO_PKG_VERSION"));
/// The image of the workloads in the book, and what of it they call.
const WORKLOAD: &str = "docker.io/library/busybox:1.36";
const COMMANDS: [&str; 12] =
    ["sh", "sleep", "cat", "echo", "ls", "date", "sync", "touch", "rm", "true", "test", "head"];
/// The bucket the book writes to.
const BUCKET: &str = "my-bucket";
/// How long a block of commands may take, in seconds.
const PATIENCE: &str = "600";

/// A reader with clusters, by the names that the pages give them.
pub struct Reader {
    name: &'static str,
    folder: PathBuf,
    clusters: BTreeMap<String, TestBox>,
    /// What was run, and what not.
    pub tally: Tally,
}

impl Reader {
    /// A reader whose boxes have names that begin so; boxes of an earlier run go.
    pub fn new(name: &'static str) -> Result<Self> {
        let folder = env::temp_dir().join(format!("velero-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        for left in TestBox::names().iter().filter(|left| left.starts_with(&format!("{name}-"))) {
            TestBox::down(left)?;
        }
        Ok(Self { name, folder, clusters: BTreeMap::new(), tally: Tally::default() })
    }

    /// Types all commands of a page that can be run, in their order; gives what they said, block by block.
    pub fn read(&mut self, page: &Page) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for command in page.commands().map_err(anyhow::Error::msg)? {
            self.tally.count(page, &command);
            if command.not_run.is_none() {
                let place = format!("{}:{}", page.path.display(), command.line);
                say(format!("reading {place}"));
                said.push(self.type_in(&command).with_context(|| place)?);
            }
        }
        Ok(said)
    }

    fn type_in(&mut self, command: &Command<'_>) -> Result<String> {
        self.type_line(command, command.text)
    }

    /// Types a part of a block; gives what was said to it.
    pub fn type_line(&mut self, command: &Command<'_>, text: &str) -> Result<String> {
        // Before another one goes: the store goes with the last.
        let machine = self.cluster(command.cluster)?.machine().clone();
        if let Some(lost) = command.lost {
            self.clusters.remove(lost).with_context(|| format!("there is no cluster {lost} to lose"))?;
            TestBox::down(&self.box_name(lost))?;
        }
        // One stream, so that lines come in the order in which they were said.
        let script = format!("exec 2>&1\ncd '{}'\n{text}", self.folder.display());
        let mut shell = machine.command("timeout");
        shell.args([PATIENCE, "bash", "-euo", "pipefail", "-c", &script]);
        let output = shell.envs(self.environment(&machine)?).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{} of\n{text}\n{said}", output.status);
        Ok(said)
    }

    fn environment(&self, machine: &Machine) -> Result<BTreeMap<&'static str, OsString>> {
        let tools = [Edition::Ours.binary()?, install::kubernetes()?.join("kubectl"), Tool::Helm.path()?];
        let folders = tools.iter().filter_map(|tool| tool.parent()).map(Path::to_owned);
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(folders.chain(env::split_paths(&path)))?;
        let kubeconfig = Certificates::kubeconfig(machine);
        Ok(BTreeMap::from([
            ("PATH", path),
            ("HOME", self.folder.clone().into()),
            ("KUBECONFIG", kubeconfig.into()),
            ("S3_URL", TestBox::store_url_for_pods().into()),
            ("ACCESS_KEY", ACCESS_KEY.into()),
            ("SECRET_KEY", SECRET_KEY.into()),
            ("KUBELET", machine.folder("kubelet")?.into()),
        ]))
    }

    fn cluster(&mut self, name: &str) -> Result<&TestBox> {
        if !self.clusters.contains_key(name) {
            let test_box = TestBox::up(&self.box_name(name), BoxKind::Storage)?;
            if self.clusters.is_empty() {
                // What an earlier reading left there is of another cluster.
                TestBox::remove_bucket(BUCKET)?;
            }
            TestBox::make_bucket(BUCKET)?;
            load_images(test_box.machine())?;
            self.clusters.insert(name.to_owned(), test_box);
        }
        self.clusters.get(name).context("a cluster that was just made is gone")
    }

    fn box_name(&self, cluster: &str) -> String {
        format!("{}-{cluster}", self.name)
    }

    /// Takes all clusters down.
    pub fn done(self) -> Result<Tally> {
        for name in self.clusters.keys() {
            TestBox::down(&self.box_name(name))?;
        }
        fs::remove_dir_all(&self.folder)?;
        Ok(self.tally)
    }
}

fn load_images(machine: &Machine) -> Result<()> {
    let busybox = Path::new("/usr/bin/busybox");
    let workload = Image::new(WORKLOAD).file(busybox, "bin/busybox").command(&["sleep", "2147483647"]);
    let workload = COMMANDS.iter().fold(workload, |image, command| image.link("busybox", &format!("bin/{command}")));
    let velero = Image::of_velero(IMAGE, &Edition::Ours.binary()?)?;
    let velero = velero.file(&Edition::Ours.restore_helper()?, "velero-restore-helper");
    for image in [workload, velero] {
        let archive = machine.state().join("book-image.tar");
        image.write(&archive)?;
        Images::load(machine, &archive)?;
        fs::remove_file(&archive)?;
    }
    Ok(())
}
