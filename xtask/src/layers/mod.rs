//! `cargo xtask layers`: dependencies between our crates point down only, and so do those between the rooms inside the
//! crates that have some. What comes in from outside is what `deny.toml` allows,
//! and what the client consists of can be built for other systems than Linux.

mod licences;
mod modules;
mod outside;
mod paths;
mod portable;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use self::modules::{Modules, Source};
use self::outside::Rules;
use crate::output::out;

/// The floors of the house, top first. A crate may use crates of lower floors, never one of its own floor or above.
const FLOORS: &[&[&str]] = &[
    &["velero"],
    &["velero-controllers"],
    &["velero-web"],
    &["velero-engine"],
    &[
        "velero-plugin-core",
        "velero-plugin-csi",
        "velero-plugin-openshift",
        "velero-plugin-aws",
        "velero-plugin-vsphere",
        "velero-plugin-example",
    ],
    &["velero-plugin", "velero-repo", "velero-report"],
    &["velero-store", "velero-cluster", "velero-registry"],
    &["velero-archive", "velero-rules"],
    &["velero-api"],
];

/// What the plugins may use.
const FOR_PLUGINS: &[&str] = &["velero-plugin", "velero-cluster", "velero-registry", "velero-rules", "velero-api"];

/// Crates that only development uses: they may use anything, and are used only as development dependencies.
const DEVELOPMENT: &[&str] =
    &["velero-csi-driver", "velero-openshift-standin", "velero-testkit", "velero-tests", "xtask"];

/// The rooms of crates that have some, top first. A room may use those behind it, and no modules use each other in a
/// circle.
const ROOMS: &[(&str, &[&str])] = &[(
    "velero-controllers",
    &[
        "node_agent",
        "server",
        "mover",
        "status",
        "download",
        "schedule",
        "repository",
        "backup",
        "restore",
        "location",
        "lifecycle",
        "runtime",
    ],
)];

/// Crates whose modules have no order of rooms, and use each other in no circle either.
const WITHOUT_CIRCLES: &[&str] = &["velero-engine"];

pub(crate) fn run() -> Result<()> {
    let metadata = metadata(&["--no-deps"])?;
    let wrong = violations(&dependencies(&metadata));
    if !wrong.is_empty() {
        bail!("dependencies between crates must point down (ARCHITECTURE.md):\n  {}", wrong.join("\n  "));
    }
    out!("layers: every dependency points down");
    let root = Path::new(metadata["workspace_root"].as_str().unwrap_or("."));
    check_outside(root)?;
    let crates = root.join("crates");
    for (name, rooms) in ROOMS {
        check_rooms(&crates, name, rooms)?;
    }
    for name in WITHOUT_CIRCLES {
        check_circles(&crates, name)?;
    }
    check_portable(root)
}

/// Checks what the client consists of: all crates that are not for development alone.
fn check_portable(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for folder in FLOORS.iter().flat_map(|floor| floor.iter()).map(|name| folder_of(name)) {
        let found = portable::violations(&sources(&root.join(&folder).join("src"))?);
        wrong.extend(found.into_iter().map(|place| format!("{folder}/src/{place}")));
    }
    ensure!(
        wrong.is_empty(),
        "the client is for macOS and Windows too; put #[cfg(unix)] or #[cfg(target_os = \"linux\")] before:\n  {}",
        wrong.join("\n  ")
    );
    out!("layers: what is for one system alone says so");
    Ok(())
}

/// Where a crate lies.
fn folder_of(name: &str) -> String {
    match name.strip_prefix("velero-plugin-") {
        Some(plugin) => format!("plugins/{plugin}"),
        None => format!("crates/{name}"),
    }
}

fn metadata(further: &[&str]) -> Result<Value> {
    let command = ["metadata", "--format-version=1", "--locked"];
    let output = Command::new(env!("CARGO")).args(command).args(further).output()?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

fn check_outside(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let wrong = Rules::read(&text).violations(&metadata(&[])?);
    if !wrong.is_empty() {
        bail!("what comes in from outside must be what deny.toml allows:\n  {}", wrong.join("\n  "));
    }
    out!("layers: licences, sources and versions are those that deny.toml allows");
    Ok(())
}

fn check_rooms(crates: &Path, name: &str, rooms: &[&str]) -> Result<()> {
    let modules = Modules::read(&sources(&crates.join(name).join("src"))?);
    let wrong = modules.violations(rooms);
    if !wrong.is_empty() {
        bail!("the rooms of {name} must use each other downwards (ARCHITECTURE.md):\n  {}", wrong.join("\n  "));
    }
    out!("layers: {name}: {} modules in {} rooms, none in a circle", modules.count(), rooms.len());
    Ok(())
}

fn check_circles(crates: &Path, name: &str) -> Result<()> {
    let modules = Modules::read(&sources(&crates.join(name).join("src"))?);
    let circles: Vec<String> = modules.circles().iter().map(|circle| modules.describe(circle)).collect();
    ensure!(
        circles.is_empty(),
        "the modules of {name} must not use each other in circles (ARCHITECTURE.md):\n  {}",
        circles.join("\n  ")
    );
    out!("layers: {name}: {} modules, none in a circle", modules.count());
    Ok(())
}

/// The source files below a folder.
fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(folder)?.display().to_string();
                found.push(Source { file, text: fs::read_to_string(&path)? });
            }
        }
    }
    Ok(found)
}

/// Our crates, each with the crates of ours it uses outside of its tests.
fn dependencies(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(name).collect();
    let used = |package: &Value| {
        let dependencies = package["dependencies"].as_array().cloned().unwrap_or_default();
        let normal = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        normal.map(name).filter(|dependency| ours.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), used(package))).collect()
}

fn violations(dependencies: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let floor = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    let mut wrong = Vec::new();
    for (user, used) in dependencies.iter().filter(|(user, _)| !DEVELOPMENT.contains(&user.as_str())) {
        let Some(own) = floor(user) else {
            wrong.push(format!("{user} has no floor: add it to xtask/src/layers.rs and ARCHITECTURE.md"));
            continue;
        };
        let plugin = user.starts_with("velero-plugin-");
        for dependency in used {
            let below = floor(dependency).is_some_and(|other| other > own);
            if !below || (plugin && !FOR_PLUGINS.contains(&dependency.as_str())) {
                wrong.push(format!("{user} may not use {dependency}"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[(&str, &[&str])]) -> Vec<String> {
        violations(
            &edges
                .iter()
                .map(|(user, used)| ((*user).into(), used.iter().map(|name| (*name).into()).collect()))
                .collect(),
        )
    }

    #[test]
    fn a_dependency_that_points_down_is_fine() {
        assert_eq!(check(&[("velero-store", &["velero-archive", "velero-api"]), ("velero-api", &[])]), [""; 0]);
    }

    #[test]
    fn a_dependency_that_points_up_or_sideways_is_named() {
        assert_eq!(check(&[("velero-api", &["velero-rules"])]), ["velero-api may not use velero-rules"]);
        assert_eq!(check(&[("velero-store", &["velero-cluster"])]), ["velero-store may not use velero-cluster"]);
    }

    #[test]
    fn a_plugin_uses_nothing_but_what_vendors_have() {
        assert_eq!(check(&[("velero-plugin-csi", &["velero-store"])]), ["velero-plugin-csi may not use velero-store"]);
    }

    #[test]
    fn the_test_kit_is_for_tests_alone() {
        assert_eq!(check(&[("velero-store", &["velero-testkit"])]), ["velero-store may not use velero-testkit"]);
    }

    #[test]
    fn a_crate_without_a_floor_is_named() {
        assert_eq!(check(&[("velero-misc", &[])]).len(), 1);
    }
}
