//! What makes the client a plugin of kubectl: the manifest by which krew installs it as `kubectl velero`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::images::SOURCE;
use super::{VERSION, checksums};

/// Writes the manifest; it names every client that is in the folder.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut platforms = String::new();
    for name in checksums::names(folder)? {
        if let Some(platform) = Client::of(&name) {
            platforms += &platform.manifest(&checksums::of_file(&folder.join(&name))?);
        }
    }
    ensure!(!platforms.is_empty(), "{} holds no client for the plugin manifest to name", folder.display());
    let path = folder.join(format!("velero-v{VERSION}-krew.yaml"));
    fs::write(&path, manifest(&platforms)).with_context(|| format!("cannot write {}", path.display()))
}

/// The archive of a client.
#[derive(Debug, PartialEq, Eq)]
struct Client<'a> {
    system: &'a str,
    processor: &'a str,
}

impl<'a> Client<'a> {
    /// What its name says, if it is the name of one.
    fn of(file: &'a str) -> Option<Self> {
        let rest = file.strip_prefix(&format!("velero-v{VERSION}-"))?.strip_suffix(".tar.gz")?;
        let (system, processor) = rest.split_once('-')?;
        Some(Self { system, processor })
    }

    fn manifest(&self, checksum: &str) -> String {
        let Self { system, processor } = self;
        let folder = format!("velero-v{VERSION}-{system}-{processor}");
        let program = if *system == "windows" { "velero.exe" } else { "velero" };
        format!(
            "  - selector:
      matchLabels:
        os: {system}
        arch: {processor}
    uri: {SOURCE}/releases/download/v{VERSION}/{folder}.tar.gz
    sha256: {checksum}
    files:
    - from: {folder}/{program}
      to: .
    - from: {folder}/LICENSE
      to: .
    bin: {program}
"
        )
    }
}

fn manifest(platforms: &str) -> String {
    format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: velero
spec:
  version: v{VERSION}
  homepage: {SOURCE}
  shortDescription: Back up and restore applications of a cluster
  description: |
    Backs up objects and volumes of a cluster to an object store and restores them,
    here or in another cluster. Works with servers of Velero too.
  platforms:
{platforms}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_their_names() {
        let file = |rest: &str| format!("velero-v{VERSION}-{rest}");
        assert_eq!(Client::of(&file("linux-amd64.tar.gz")), Some(Client { system: "linux", processor: "amd64" }));
        assert_eq!(Client::of(&file("windows-arm64.tar.gz")), Some(Client { system: "windows", processor: "arm64" }));
        for other in ["kustomize.tar.gz", "linux-amd64.cdx.json", "definitions.yaml"] {
            assert_eq!(Client::of(&file(other)), None, "{other}");
        }
        assert_eq!(Client::of(&format!("velero-server-v{VERSION}-linux-amd64.tar.gz")), None);
    }

    #[test]
    fn the_manifest_names_archive_checksum_and_program() {
        let text = manifest(&Client { system: "windows", processor: "amd64" }.manifest("abc"));
        for expected in [
            "    os: windows\n",
            "    sha256: abc\n",
            "    bin: velero.exe\n",
            &format!("/v{VERSION}/velero-v{VERSION}-windows-amd64.tar.gz"),
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
