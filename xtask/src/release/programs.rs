//! The archives of programs: the command for users, and all of them for those who make their own images.

use std::path::Path;

use anyhow::Result;

use super::{Archive, Release, licences, read};

/// The command, and what runs in pods beside the server.
pub(super) const OWN_PROGRAMS: [&str; 3] = ["velero", "velero-restore-helper", "velero-helper"];

/// The crates of the plugins that are shipped; their binaries and images are called the same.
pub(super) const PLUGINS: [&str; 3] = ["velero-plugin-aws", "velero-plugin-openshift", "velero-plugin-vsphere"];

/// Of the files of the repository, what users get with it.
const PAPERS: [&str; 4] = ["LICENSE", "README.md", "CHANGELOG.md", "docs/releases.md"];

/// The archive of the client.
pub(super) fn client(release: &Release, binaries: &Path) -> Result<()> {
    write(release, "velero", &OWN_PROGRAMS[..1], binaries)
}

/// The archive with all programs.
pub(super) fn server(release: &Release, binaries: &Path) -> Result<()> {
    write(release, "velero-server", &[&OWN_PROGRAMS[..], &PLUGINS].concat(), binaries)
}

fn write(release: &Release, what: &str, programs: &[&str], binaries: &Path) -> Result<()> {
    let name = release.name(what);
    let mut archive: Archive = release.archive(&name);
    for program in programs {
        let file = release.platform.program(program);
        archive.program(&file, read(&binaries.join(&file))?);
    }
    for paper in PAPERS {
        archive.file(paper.rsplit('/').next().unwrap_or(paper), read(&release.root.join(paper))?);
    }
    archive.file("THIRD-PARTY-LICENSES.txt", licences::of_what_is_built_in(release)?);
    archive.write(&release.path(&format!("{name}.tar.gz")))
}
