//! `cargo xtask image`: the container image of the velero binary, made without a container engine.

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
    say("building the release binary");
    let status =
        Command::new(env!("CARGO")).args(["build", "--release", "--package", "velero"]).current_dir(&root).status()?;
    ensure!(status.success(), "cargo build --release --package velero failed");
    let output = root.join(&options.output);
    std::fs::create_dir_all(output.parent().context("the archive needs a folder")?)?;
    let binary = root.join("target/release/velero");
    Image::of_velero(IMAGE, &binary)?.write(&output)?;
    println!("{IMAGE} is in {}", output.display());
    if let Some(name) = &options.load {
        let test_box = TestBox::find(name).with_context(|| format!("no box named {name} is up"))?;
        Images::load(test_box.machine(), &output)?;
        println!("{IMAGE} is loaded into the box {name}");
    }
    Ok(())
}
