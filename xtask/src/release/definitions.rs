//! The definitions of the custom resources, and the base for kustomize.

use std::fs;

use anyhow::{Result, ensure};

use super::{Release, VERSION, read};

/// What names the definitions in the repository; in the package they lie beside.
const IN_REPOSITORY: &str = "- ../../config\n";
const IN_PACKAGE: &str = "- definitions.yaml\n";

/// Writes all definitions as one file, and the base.
pub(super) fn write(release: &Release) -> Result<()> {
    let definitions: String = velero_api::crd::yaml_files()?.into_iter().map(|(_, text)| text).collect();
    release.write(&format!("velero-v{VERSION}-definitions.yaml"), &definitions)?;
    let folder = release.root.join("deploy/kustomize");
    let base = fs::read_to_string(folder.join("kustomization.yaml"))?;
    ensure!(base.contains(IN_REPOSITORY), "deploy/kustomize/kustomization.yaml does not name ../../config");
    let name = format!("velero-v{VERSION}-kustomize");
    let mut archive = release.archive(&name);
    archive.file("kustomization.yaml", base.replace(IN_REPOSITORY, IN_PACKAGE));
    archive.file("definitions.yaml", definitions);
    archive.file("velero.yaml", read(&folder.join("velero.yaml"))?);
    archive.write(&release.path(&format!("{name}.tar.gz")))
}
