//! The images every node starts with: the sandbox and a small workload.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Containerd, Part};
use crate::cache::{self, Recipe};
use crate::image::Image;
use crate::machine::Machine;
use crate::tool::Tool;

/// The image of a pod's sandbox.
pub(super) const PAUSE_IMAGE: &str = "docker.io/velero-box/pause:1";
/// The image for workloads: BusyBox, with its commands on the PATH.
pub const WORKLOAD_IMAGE: &str = "docker.io/velero-box/busybox:1";

/// Commands of BusyBox that workloads call by name. Its `wget` crashes in the static build: `nc` does its work.
const COMMANDS: &[&str] = &[
    "sh",
    "sleep",
    "cat",
    "echo",
    "nc",
    "httpd",
    "ls",
    "true",
    "false",
    "date",
    "test",
    "id",
    "env",
    "dd",
    "md5sum",
    "sha256sum",
    "mkdir",
    "rm",
    "touch",
    "nslookup",
    "head",
    "tail",
    "grep",
    "printf",
    "seq",
    "sync",
    "cp",
    "mv",
    "find",
    "tr",
    "stat",
    "sort",
    "ln",
    "chmod",
    "chown",
    "readlink",
    "du",
    "wc",
];

/// Puts the images into containerd.
pub struct Images;

impl Images {
    /// The folder with their archives.
    pub(crate) fn folder() -> Result<PathBuf> {
        let recipe = Recipe::default().text("2").text(&COMMANDS.join(" "));
        cache::entry(Tool::Images, recipe, |folder| {
            let busybox = Path::new("/usr/bin/busybox");
            Image::new(PAUSE_IMAGE)
                .file(busybox, "bin/busybox")
                .entrypoint(&["/bin/busybox", "sleep", "2147483647"])
                .write(&folder.join("pause.tar"))?;
            let workload = Image::new(WORKLOAD_IMAGE).file(busybox, "bin/busybox").command(&["sleep", "2147483647"]);
            let workload =
                COMMANDS.iter().fold(workload, |image, command| image.link("busybox", &format!("bin/{command}")));
            workload.write(&folder.join("busybox.tar"))
        })
    }

    /// Loads one more archive into the containerd of a running box.
    pub fn load(machine: &Machine, archive: &Path) -> Result<()> {
        let socket = Containerd::socket(machine).display().to_string();
        machine
            .run(
                "ctr",
                ["--address", &socket, "--namespace", "k8s.io", "images", "import", &archive.display().to_string()],
            )
            .with_context(|| format!("cannot load the image {}", archive.display()))
            .map(drop)
    }
}

impl Part for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn install(&self) -> Result<()> {
        Self::folder().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let folder = Self::folder()?;
        ["pause.tar", "busybox.tar"].iter().try_for_each(|archive| Self::load(machine, &folder.join(archive)))
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        let socket = Containerd::socket(machine).display().to_string();
        let images =
            machine.run("ctr", ["--address", &socket, "--namespace", "k8s.io", "images", "list", "--quiet"])?;
        anyhow::ensure!(
            images.contains(PAUSE_IMAGE) && images.contains(WORKLOAD_IMAGE),
            "containerd has only: {images}"
        );
        Ok(())
    }
}
