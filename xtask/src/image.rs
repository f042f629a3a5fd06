//! `cargo xtask image`: the container image of the velero binary and its helpers, made without a container engine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use velero_testkit::TestBox;
use velero_testkit::image::Image;
use velero_testkit::install::repository_root;
use velero_testkit::parts::Images;
use velero_testkit::progress::say;

/// The name the image has in a box.
const IMAGE: &str = concat!("docker.io/velero/velero:v", env!("CARGO_PKG_VERSION"));

/// What runs in pods beside the server: it holds back those whose volumes are being restored, and keeps those running
/// that only hold volumes.
const HELPERS: [&str; 2] = ["velero-restore-helper", "velero-helper"];

/// What the image may weigh, in megabytes.
const MOST: f64 = 60.0;

#[derive(Args)]
pub(crate) struct Options {
    /// Where the archive goes
    #[arg(long, default_value = "target/image/velero.tar")]
    output: PathBuf,
    /// Also load it into the box of this name
    #[arg(long)]
    load: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = repository_root();
    say("building the release binaries");
    let status =
        Command::new(env!("CARGO")).args(["build", "--release", "--package", "velero"]).current_dir(&root).status()?;
    ensure!(status.success(), "cargo build --release --package velero failed");
    let output = root.join(&options.output);
    std::fs::create_dir_all(output.parent().context("the archive needs a folder")?)?;
    let binaries = root.join("target/release");
    let image = Image::of_velero(IMAGE, &binaries.join("velero"))?;
    let image = HELPERS.iter().fold(image, |image, helper| image.file(&binaries.join(helper), helper));
    image.write(&output)?;
    let megabytes = output.metadata()?.len() as f64 / 1e6;
    println!("{IMAGE} is in {}: {megabytes:.1} MB", output.display());
    ensure!(megabytes < MOST, "the image has grown past {MOST} MB: find out what it carries");
    if let Some(name) = &options.load {
        let test_box = TestBox::find(name).with_context(|| format!("no box named {name} is up"))?;
        Images::load(test_box.machine(), &output)?;
        println!("{IMAGE} is loaded into the box {name}");
    }
    Ok(())
}
