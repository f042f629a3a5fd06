//! Which Kubernetes a machine runs.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::install::{self, KUBERNETES_VERSION};
use crate::machine::Machine;
use crate::tool::Tool;

/// A file in the state of the machine, so that parts that are started again, and kubectl, are of the same release.
const RELEASE: &str = "kubernetes.json";

/// A release of Kubernetes that a control plane can be of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KubernetesRelease {
    /// That of every box that is not asked for another; it alone has what nodes need.
    #[default]
    Usual,
    /// Five minor versions back.
    Older,
    /// One minor version ahead.
    Newer,
}

impl KubernetesRelease {
    /// The version, as its API server tells it: `v1.35.4`.
    pub fn version(self) -> &'static str {
        match self {
            Self::Usual => KUBERNETES_VERSION,
            Self::Older => "v1.30.14",
            Self::Newer => "v1.36.3",
        }
    }

    /// The minor version, as its API server tells it: `35`.
    pub fn minor(self) -> &'static str {
        self.version().split('.').nth(1).unwrap_or_default()
    }

    /// What it is built as.
    pub(crate) fn tool(self) -> Tool {
        match self {
            Self::Usual => Tool::Kubernetes,
            Self::Older => Tool::OlderKubernetes,
            Self::Newer => Tool::NewerKubernetes,
        }
    }

    /// The flags of the linker by which its components know their version.
    pub(crate) fn ldflags(self) -> String {
        let (package, version, minor) = ("k8s.io/component-base/version", self.version(), self.minor());
        format!("-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}")
    }
}

impl Machine {
    /// Has the parts that are started from now on be of a release.
    pub(crate) fn run_kubernetes(&self, release: KubernetesRelease) -> Result<()> {
        Ok(fs::write(self.state().join(RELEASE), serde_json::to_vec(&release)?)?)
    }

    /// The release that its parts are of.
    pub fn kubernetes_release(&self) -> KubernetesRelease {
        let written = fs::read(self.state().join(RELEASE)).ok();
        written.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The folder with the components of that release, `kubectl` among them.
    pub fn kubernetes(&self) -> Result<PathBuf> {
        install::kubernetes_of(self.kubernetes_release())
    }
}

#[cfg(test)]
mod tests {
    use super::KubernetesRelease;

    #[test]
    fn a_release_knows_its_minor_version_and_the_module_it_is_built_from() {
        for release in [KubernetesRelease::Older, KubernetesRelease::Newer] {
            assert_eq!(release.tool().name(), format!("kubernetes-1.{}", release.minor()));
        }
        assert_eq!(KubernetesRelease::Usual.minor(), "35");
    }
}
