//! Builds the book.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use velero_testkit::Tool;
use velero_testkit::install::repository_root;

/// Builds the book into a folder; what mdBook warns of is an error.
pub fn build(folder: &Path) -> Result<()> {
    let mut command = Command::new(Tool::MdBook.path()?);
    let output = command.args(["build", "--dest-dir"]).arg(folder).arg(repository_root()).output();
    let output = output.context("mdbook could not be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !said.contains("WARN"), "mdbook build: {said}");
    Ok(())
}
