//! `cargo xtask image`: the container image of the velero binary and its helpers, made without a container engine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use velero_api::IMAGE_REGISTRY;
use velero_testkit::TestBox;
use velero_testkit::image::Image;
use velero_testkit::install::repository_root;
use velero_testkit::parts::Images;
use velero_testkit::progress::say;

use crate::output::out;

/// What runs in pods beside the server: it holds back those whose volumes are being restored, and keeps those running
/// that only hold volumes.
const HELPERS: [&str; 2] = ["velero-restore-helper", "velero-helper"];

/// What the image may weigh, in megabytes.
const MOST: f64 = 60.0;

#[derive(Args)]
pub(crate) struct Options {
    /// Where the archive goes; by default target/image/<package>.tar
    #[arg(long)]
    output: Option<PathBuf>,
    /// Make the image of a plugin, for `velero plugin add`, instead
    #[arg(long)]
    plugin: Option<Plugin>,
    /// Also load it into the box of this name
    #[arg(long)]
    load: Option<String>,
}

/// The plugins that are shipped.
#[derive(Clone, Copy, ValueEnum)]
enum Plugin {
    Aws,
    Openshift,
    Vsphere,
}

impl Plugin {
    /// The name of its crate, its binary and its image.
    fn package(self) -> &'static str {
        match self {
            Self::Aws => "velero-plugin-aws",
            Self::Openshift => "velero-plugin-openshift",
            Self::Vsphere => "velero-plugin-vsphere",
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = repository_root();
    let package = options.plugin.map_or("velero", Plugin::package);
    let image_name = format!("{IMAGE_REGISTRY}/{package}:v{}", env!("CARGO_PKG_VERSION"));
    say("building the release binaries");
    let status =
        Command::new(env!("CARGO")).args(["build", "--release", "--package", package]).current_dir(&root).status()?;
    ensure!(status.success(), "cargo build --release --package {package} failed");
    let output = options.output.clone().unwrap_or_else(|| format!("target/image/{package}.tar").into());
    let output = root.join(output);
    std::fs::create_dir_all(output.parent().context("the archive needs a folder")?)?;
    let binaries = root.join("target/release");
    let image = match options.plugin {
        Some(_) => Image::of_plugin(&image_name, &binaries.join(package))?,
        None => {
            let image = Image::of_velero(&image_name, &binaries.join(package))?;
            HELPERS.iter().fold(image, |image, helper| image.file(&binaries.join(helper), helper))
        }
    };
    image.write(&output)?;
    let megabytes = output.metadata()?.len() as f64 / 1e6;
    out!("{image_name} is in {}: {megabytes:.1} MB", output.display());
    ensure!(megabytes < MOST, "the image has grown past {MOST} MB: find out what it carries");
    if let Some(name) = &options.load {
        let test_box = TestBox::find(name).with_context(|| format!("no box named {name} is up"))?;
        Images::load(test_box.machine(), &output)?;
        out!("{image_name} is loaded into the box {name}");
    }
    Ok(())
}
