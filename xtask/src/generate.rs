//! `cargo xtask gen`: files that are made from the code and kept in the repository.

use std::fs;

use anyhow::{Result, bail};
use clap::Args;
use velero_testkit::install::repository_root;

use crate::output::out;

#[derive(Args)]
pub(crate) struct Options {
    /// Only check that the files are up to date
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = repository_root().join("config/crd");
    fs::create_dir_all(&folder)?;
    for (name, content) in velero_api::crd::yaml_files()? {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|present| present == content) {
            continue;
        }
        if options.check {
            bail!("{} is out of date: run cargo xtask gen", path.display());
        }
        fs::write(&path, content)?;
        out!("wrote {}", path.display());
    }
    Ok(())
}
