//! What a box and the tests run from that is not ours and no Debian package: one list, got before the first test.
//!
//! The cache hands out what is on the list and nothing else. A test that needs something new must put it there, or it
//! fails on every machine, also on one whose cache happens to have it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::cache::{self, Recipe};
use crate::install::{self, PEER_VERSION, repository_root, run_logged};
use crate::parts::{Images, KubernetesRelease, SnapshotDefinitions};
use crate::progress::say;

/// One thing that is downloaded or built once and kept in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Kubernetes in one binary; [`install::kubernetes`] gives its components.
    Kubernetes,
    /// The control plane of an older Kubernetes, in one binary.
    OlderKubernetes,
    /// The control plane of a newer Kubernetes, in one binary.
    NewerKubernetes,
    /// The name server of a box.
    CoreDns,
    /// Binds VolumeSnapshots to their contents.
    SnapshotController,
    /// Has a CSI driver take snapshots.
    CsiSnapshotter,
    /// Has a CSI driver make volumes.
    CsiProvisioner,
    /// The suite that every CSI driver should pass.
    CsiSanity,
    /// Prometheus, without service discovery and without its pages.
    Prometheus,
    /// Checks and tries alert rules.
    Promtool,
    /// Takes traces over HTTP, with the code of the OpenTelemetry Collector that reads them.
    OtlpReceiver,
    /// Helm, which believes to talk to the release the box runs.
    Helm,
    /// The original Velero.
    Velero,
    /// What the original runs in pods until their data is there.
    VeleroRestoreHelper,
    /// Prints random objects of the original's own types.
    VeleroSamples,
    /// The original's plugin for AWS.
    VeleroPluginForAws,
    /// The original's code that runs plugins, without the rest of it.
    PluginHost,
    /// kopia's own command, of the version Velero links.
    Kopia,
    /// Calls Velero's own packages for repositories.
    KopiaPeer,
    /// SeaweedFS: S3, and GCS through its gateway.
    SeaweedFs,
    /// moto: EC2.
    Moto,
    /// Azurite: Azure Blob.
    Azurite,
    /// axe: finds what hinders people in a page.
    Axe,
    /// The container images of the pods in a box.
    Images,
    /// The custom resource definitions of snapshots.
    SnapshotDefinitions,
    /// mdBook, which makes the book.
    MdBook,
}

/// How a tool is built from one of the Go modules under `testbed/`.
struct GoBuild {
    module: &'static str,
    package: &'static str,
    tags: &'static str,
    ldflags: String,
}

impl Tool {
    /// The list. [`crate::server::install_all`] gets everything on it, in this order: what is downloaded alone first, while
    /// the processors have our own crates to compile.
    pub const ALL: [Self; 26] = [
        Self::SeaweedFs,
        Self::Moto,
        Self::Azurite,
        Self::Axe,
        Self::Kubernetes,
        Self::OlderKubernetes,
        Self::NewerKubernetes,
        Self::CoreDns,
        Self::SnapshotController,
        Self::CsiSnapshotter,
        Self::CsiProvisioner,
        Self::CsiSanity,
        Self::Prometheus,
        Self::Promtool,
        Self::OtlpReceiver,
        Self::Helm,
        Self::Velero,
        Self::VeleroRestoreHelper,
        Self::VeleroSamples,
        Self::VeleroPluginForAws,
        Self::PluginHost,
        Self::Kopia,
        Self::KopiaPeer,
        Self::Images,
        Self::SnapshotDefinitions,
        Self::MdBook,
    ];

    /// Whether only tests that are begun with `--thorough` ask for it: such tools are not got for the usual run.
    pub fn is_for_thorough_runs(self) -> bool {
        matches!(self, Self::OlderKubernetes | Self::NewerKubernetes | Self::Prometheus | Self::Promtool)
    }

    /// The name of its entry in the cache, and of its binary where it is built from Go.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::OlderKubernetes => "kubernetes-1.30",
            Self::NewerKubernetes => "kubernetes-1.36",
            Self::CoreDns => "coredns",
            Self::SnapshotController => "snapshot-controller",
            Self::CsiSnapshotter => "csi-snapshotter",
            Self::CsiProvisioner => "csi-provisioner",
            Self::CsiSanity => "csi-sanity",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::OtlpReceiver => "otlp-receiver",
            Self::Helm => "helm",
            Self::Velero => "velero",
            Self::VeleroRestoreHelper => "velero-restore-helper",
            Self::VeleroSamples => "velero-samples",
            Self::VeleroPluginForAws => "velero-plugin-for-aws",
            Self::PluginHost => "plugin-host",
            Self::Kopia => "kopia",
            Self::KopiaPeer => "kopia-peer",
            Self::SeaweedFs => "seaweedfs",
            Self::Moto => "moto",
            Self::Azurite => "azurite",
            Self::Axe => "axe",
            Self::Images => "images",
            Self::SnapshotDefinitions => "snapshot-definitions",
            Self::MdBook => "mdbook",
        }
    }

    /// The binary, script, file or folder it is used by; got first where it is missing.
    pub fn path(self) -> Result<PathBuf> {
        match self {
            Self::SeaweedFs => install::seaweedfs(),
            Self::Moto => install::moto(),
            Self::Azurite => install::azurite(),
            Self::Axe => install::axe(),
            Self::Images => Images::folder(),
            Self::SnapshotDefinitions => SnapshotDefinitions::file(),
            Self::MdBook => install::mdbook(),
            _ => self.go_binary(),
        }
    }

    fn go_build(self) -> Option<GoBuild> {
        let (module, package) = match self {
            Self::Kubernetes
            | Self::OlderKubernetes
            | Self::NewerKubernetes
            | Self::CoreDns
            | Self::OtlpReceiver
            | Self::Velero
            | Self::PluginHost => (self.name(), "."),
            Self::SnapshotController => {
                ("external-snapshotter", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller")
            }
            Self::CsiSnapshotter => {
                ("external-snapshotter", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter")
            }
            Self::CsiProvisioner => {
                ("external-provisioner", "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner")
            }
            Self::CsiSanity => ("csi-sanity", "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"),
            Self::Prometheus => ("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
            Self::Promtool => ("prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
            Self::Helm => ("helm", "helm.sh/helm/v3/cmd/helm"),
            Self::VeleroRestoreHelper => ("velero", "github.com/vmware-tanzu/velero/cmd/velero-restore-helper"),
            Self::VeleroSamples => ("velero", "./samples"),
            Self::Kopia => ("kopia", "github.com/kopia/kopia"),
            Self::KopiaPeer => ("kopia", "./peer"),
            Self::VeleroPluginForAws => {
                ("velero-plugin-for-aws", "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws")
            }
            Self::SeaweedFs
            | Self::Moto
            | Self::Azurite
            | Self::Axe
            | Self::Images
            | Self::SnapshotDefinitions
            | Self::MdBook => return None,
        };
        Some(GoBuild { module, package, tags: self.tags(), ldflags: self.ldflags() })
    }

    /// What is left out of a build, or put in.
    fn tags(self) -> &'static str {
        match self {
            // The clients of all clouds, which take longer to build than all the rest.
            Self::Prometheus | Self::Promtool => "remove_all_sd",
            _ => "",
        }
    }

    fn ldflags(self) -> String {
        match self {
            Self::Kubernetes => KubernetesRelease::Usual.ldflags(),
            Self::OlderKubernetes => KubernetesRelease::Older.ldflags(),
            Self::NewerKubernetes => KubernetesRelease::Newer.ldflags(),
            Self::Helm => {
                let version = "helm.sh/helm/v3/pkg/chartutil";
                format!("-X {version}.k8sVersionMajor=1 -X {version}.k8sVersionMinor=35")
            }
            Self::Velero => format!("-X github.com/vmware-tanzu/velero/pkg/buildinfo.Version={PEER_VERSION}"),
            _ => String::new(),
        }
    }

    /// Each command in a box asks for one: what it is made of is looked at once.
    fn go_binary(self) -> Result<PathBuf> {
        static FOUND: Mutex<BTreeMap<&'static str, PathBuf>> = Mutex::new(BTreeMap::new());
        let name = self.name();
        let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = found().get(name) {
            return Ok(path.clone());
        }
        let path = self.built_by_go()?;
        found().insert(name, path.clone());
        Ok(path)
    }

    fn built_by_go(self) -> Result<PathBuf> {
        let name = self.name();
        let GoBuild { module, package, tags, ldflags } =
            self.go_build().with_context(|| format!("{name} is not built from Go"))?;
        let source = repository_root().join("testbed").join(module);
        let mut recipe = Recipe::default().folder(&source)?.text(package).text(&ldflags).text(&go_version()?);
        if !tags.is_empty() {
            recipe = recipe.text(tags);
        }
        let folder = cache::entry(self, recipe, |folder| {
            say(format!("building {name} from its Go module (minutes, once)"));
            let mut build = Command::new("go");
            // What the linker would throw away again is a seventh of the work of the compiler.
            build
                .env("GOGC", "400")
                .args(["build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-tags", tags])
                .args(["-ldflags", &format!("-s -w {ldflags}"), "-o"])
                .arg(folder.join(name))
                .arg(package)
                .current_dir(&source);
            run_logged(&mut build, name)
        })?;
        Ok(folder.join(name))
    }
}

fn go_version() -> Result<String> {
    let version = Command::new("go").arg("version").output().context(
        "the Go toolchain is missing (`go` is not on the PATH): install Go 1.26 or later to build the test bed",
    )?;
    Ok(String::from_utf8_lossy(&version.stdout).into_owned())
}

/// Gives the folder with the sources of a module that one of the Go modules under `testbed/` uses.
pub(crate) fn go_sources(module: &str, used: &str) -> Result<PathBuf> {
    let folder = repository_root().join("testbed").join(module);
    let go = |arguments: &[&str]| Command::new("go").args(arguments).current_dir(&folder).output();
    let download = go(&["mod", "download", used]).context("the Go toolchain is missing: install Go 1.26 or later")?;
    ensure!(download.status.success(), "cannot get {used}: {}", String::from_utf8_lossy(&download.stderr).trim());
    let list = go(&["list", "-m", "-f", "{{.Dir}}", used])?;
    ensure!(list.status.success(), "cannot find {used}: {}", String::from_utf8_lossy(&list.stderr).trim());
    Ok(String::from_utf8_lossy(&list.stdout).trim().into())
}

/// Fails where this thread is in the network of a box, which leads nowhere: what is missing must be got before.
pub(crate) fn ensure_outside_of_boxes(what: &str) -> Result<()> {
    let network = |process: &str| std::fs::read_link(Path::new("/proc").join(process).join("ns/net"));
    ensure!(
        network("thread-self")? == network("self")?,
        "{what} is missing, and a box has no network to get it from: run `cargo xtask install` first"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a tool may have in another version than Velero: nothing that they share is built on it.
    const APART: [&str; 4] = [
        "github.com/Azure/go-ansiterm",
        "github.com/moby/term",
        "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
        "k8s.io/cli-runtime",
    ];

    #[test]
    fn every_go_module_of_the_test_bed_is_built_before_the_first_test() {
        let built: Vec<_> = Tool::ALL.iter().filter_map(|tool| tool.go_build()).map(|build| build.module).collect();
        for module in fs::read_dir(repository_root().join("testbed")).unwrap() {
            let module = module.unwrap().file_name().to_string_lossy().into_owned();
            assert!(built.contains(&module.as_str()), "nothing on the list is built from testbed/{module}");
        }
    }

    #[test]
    fn no_two_tools_share_an_entry_of_the_cache() {
        let mut names = Tool::ALL.map(Tool::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Tool::ALL.len());
    }

    #[test]
    fn what_tools_share_with_velero_is_compiled_once_for_all() {
        let velero = dependencies("velero");
        for module in Tool::ALL.iter().filter_map(|tool| tool.go_build()).map(|build| build.module) {
            if module.starts_with("kubernetes") || module == "prometheus" {
                continue;
            }
            for (name, version) in dependencies(module) {
                let wanted = velero.get(&name).filter(|_| !APART.contains(&name.as_str()));
                assert!(
                    wanted.is_none_or(|other| *other == version),
                    "testbed/{module}: {name} {version} is compiled apart from Velero's {wanted:?}, and all built on it"
                );
            }
        }
    }

    /// The dependencies of a Go module of the test bed, with their versions.
    fn dependencies(module: &str) -> BTreeMap<String, String> {
        let file = fs::read_to_string(repository_root().join("testbed").join(module).join("go.mod")).unwrap();
        let blocks = file.split("\nrequire (\n").skip(1).filter_map(|rest| rest.split("\n)").next());
        let dependency = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        blocks.flat_map(str::lines).filter_map(dependency).collect()
    }
}
