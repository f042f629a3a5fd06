//! `cargo xtask gen`: files that are made from the code and kept in the repository.

mod reference;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use velero_testkit::install::{our_binary, repository_root};

use crate::output::out;

/// How the server of the base for kustomize is installed: where backups go is up to who uses it.
const INSTALL: [&str; 6] = ["install", "--no-default-backup-location", "--no-secret", "--dry-run", "--output", "json"];

#[derive(Args)]
pub(crate) struct Options {
    /// Only check that the files are up to date
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = repository_root();
    let definitions = velero_api::crd::yaml_files()?;
    let mut files = vec![
        ("config/kustomization.yaml".to_owned(), list_of(&definitions)),
        ("deploy/kustomize/velero.yaml".to_owned(), installation(&root)?),
    ];
    files.extend(reference::pages(&root)?);
    files.extend(definitions.into_iter().map(|(name, content)| (format!("config/crd/{name}"), content)));
    for (path, content) in files {
        write(&root.join(path), &content, options.check)?;
    }
    Ok(())
}

fn write(path: &Path, content: &str, only_check: bool) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if only_check {
        bail!("{} is out of date: run cargo xtask gen", path.display());
    }
    fs::create_dir_all(path.parent().context("a file needs a folder")?)?;
    fs::write(path, content)?;
    out!("wrote {}", path.display());
    Ok(())
}

/// The definitions, for kustomize.
fn list_of(definitions: &[(String, String)]) -> String {
    let mut text =
        "# Made by cargo xtask gen.\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
            .to_owned();
    text.extend(definitions.iter().map(|(name, _)| format!("- crd/{name}\n")));
    text
}

/// What is not in the base: the definitions, which are a list of their own, and the one custom resource, which the server makes
/// itself. With it the base could not be applied in one go, for the API server knows no kind whose definition has just come.
const LEFT_OUT: [&str; 2] = ["CustomResourceDefinition", "ServerStatusRequest"];

/// What `velero install` makes, without what is left out.
fn installation(root: &Path) -> Result<String> {
    // Where no cluster and no file of a user can be found.
    let output = Command::new(our_binary("dev")?).args(INSTALL).env_clear().current_dir(root).output()?;
    ensure!(output.status.success(), "velero {}: {}", INSTALL.join(" "), String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let mut text = format!("# Made by cargo xtask gen, from velero {}.\n", INSTALL[..3].join(" "));
    let objects = list["items"].as_array().into_iter().flatten();
    for object in objects.filter(|object| !LEFT_OUT.iter().any(|kind| object["kind"] == *kind)) {
        text += "---\n";
        text += &serde_saphyr::to_string(object)?;
    }
    Ok(text)
}
