//! What the binaries are made of, as CycloneDX: every crate that is linked, where it came from, its licence and its checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::images::SOURCE;
use super::programs::PLUGINS;
use super::{Release, VERSION};

/// Writes the bill of the platform of a release.
pub(super) fn write(release: &Release) -> Result<()> {
    let packages = Packages::of(release)?;
    let time = jiff::Timestamp::from_second(release.commit.time.cast_signed())?.to_string();
    let lock = fs::read_to_string(release.root.join("Cargo.lock"))?;
    let bill = bill(&packages, &checksums(&lock), &time, &release.commit.name);
    release.write(&format!("{}.cdx.json", release.name("velero")), serde_json::to_string_pretty(&bill)? + "\n")
}

/// Crates by the id that cargo gives them, and what each of them uses.
pub(super) struct Packages {
    /// What `cargo metadata` says of each.
    pub(super) by_id: BTreeMap<String, Value>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    /// Those that are linked into what is released for a platform.
    pub(super) fn of(release: &Release) -> Result<Self> {
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &release.platform.triple]);
        let output = command.current_dir(&release.root).output().context("cannot start cargo")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
        let roots: Vec<&str> = match release.platform.runs_servers() {
            true => ["velero"].into_iter().chain(PLUGINS).collect(),
            false => vec!["velero"],
        };
        Ok(Self::linked(&serde_json::from_slice(&output.stdout)?, &roots))
    }

    /// Those that some crates of ours lead to, without what only tests and build scripts need.
    fn linked(metadata: &Value, roots: &[&str]) -> Self {
        let packages: BTreeMap<&str, &Value> =
            array(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
        let nodes: BTreeMap<&str, &Value> =
            array(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
        let is_ours = |package: &Value| array(&metadata["workspace_members"]).any(|member| *member == package["id"]);
        let is_root = |package: &Value| roots.contains(&text(&package["name"])) && is_ours(package);
        let mut waiting: Vec<&str> =
            packages.values().filter(|package| is_root(package)).map(|package| text(&package["id"])).collect();
        let mut found = Self { by_id: BTreeMap::new(), uses: BTreeMap::new() };
        while let Some(id) = waiting.pop() {
            let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else { continue };
            if found.by_id.insert(id.to_owned(), (*package).clone()).is_some() {
                continue;
            }
            let linked = |dependency: &&Value| array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            let uses: BTreeSet<&str> =
                array(&node["deps"]).filter(linked).map(|dependency| text(&dependency["pkg"])).collect();
            waiting.extend(&uses);
            found.uses.insert(id.to_owned(), uses.into_iter().map(str::to_owned).collect());
        }
        found
    }
}

fn bill(packages: &Packages, checksums: &BTreeMap<(String, String), String>, time: &str, commit: &str) -> Value {
    let component = |package: &Value| {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": "library", "bom-ref": reference(package), "name": name, "version": version, "scope": "required",
            "purl": reference(package),
        });
        if let Some(licence) = package["license"].as_str() {
            // Old crates write a stroke where others write OR.
            component["licenses"] = json!([{"expression": licence.replace(" / ", " OR ").replace('/', " OR ")}]);
        }
        if let Some(description) = package["description"].as_str() {
            component["description"] = json!(description.trim());
        }
        if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        if let Some(repository) = package["repository"].as_str() {
            component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
        }
        component
    };
    let name_of = |id: &String| packages.by_id.get(id).map(reference);
    let dependencies: BTreeMap<String, BTreeSet<String>> = packages
        .uses
        .iter()
        .filter_map(|(id, uses)| Some((name_of(id)?, uses.iter().filter_map(name_of).collect())))
        .collect();
    let components: BTreeMap<String, Value> =
        packages.by_id.values().map(|package| (reference(package), component(package))).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application", "bom-ref": format!("velero@v{VERSION}"), "name": "velero", "version": format!("v{VERSION}"),
                "licenses": [{"expression": "Apache-2.0"}],
                "externalReferences": [{"type": "vcs", "url": SOURCE, "comment": format!("commit {commit}")}],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(|(of, uses)| json!({"ref": of, "dependsOn": uses})).collect::<Vec<_>>(),
    })
}

/// What a package is called everywhere.
fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]).replace('+', "%2B"))
}

/// The checksums of packages, by name and version, as the lock file has them.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line =
                package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'));
            line.map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(checksum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package = |name: &str, version: &str, licence: Option<&str>| json!({"id": name, "name": name, "version": version, "license": licence});
        let uses = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                package("velero", "0.1.0", Some("Apache-2.0")),
                package("linked", "1.0.0+x", Some("MIT/Apache-2.0")),
                package("below", "2.0.0", None),
                package("tested-with", "1.0.0", None),
                package("built-with", "1.0.0", None),
                package("xtask", "0.1.0", None),
            ],
            "workspace_members": ["velero", "xtask"],
            "resolve": {"nodes": [
                {"id": "velero", "deps": [uses("linked", None), uses("tested-with", Some("dev")), uses("built-with", Some("build"))]},
                {"id": "linked", "deps": [uses("below", None)]},
                {"id": "below", "deps": [uses("linked", None)]},
                {"id": "tested-with", "deps": []},
                {"id": "built-with", "deps": []},
                {"id": "xtask", "deps": []},
            ]},
        })
    }

    #[test]
    fn what_is_linked_is_listed_and_nothing_else() {
        let packages = Packages::linked(&metadata(), &["velero"]);
        assert_eq!(packages.by_id.keys().collect::<Vec<_>>(), ["below", "linked", "velero"]);
    }

    #[test]
    fn a_component_has_its_name_licence_and_checksum() {
        let lock = "version = 4\n\n[[package]]\nname = \"linked\"\nversion = \"1.0.0+x\"\nsource = \"registry\"\nchecksum = \"abc\"\n\
                    dependencies = [\n \"below\",\n]\n\n[[package]]\nname = \"velero\"\nversion = \"0.1.0\"\n";
        let packages = Packages::linked(&metadata(), &["velero"]);
        let bill = bill(&packages, &checksums(lock), "2026-01-01T00:00:00Z", "c0ffee");
        let linked = &bill["components"][1];
        assert_eq!(linked["purl"], "pkg:cargo/linked@1.0.0%2Bx");
        assert_eq!(linked["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        assert_eq!(linked["hashes"], json!([{"alg": "SHA-256", "content": "abc"}]));
        assert_eq!(bill["components"][0]["hashes"], Value::Null);
        let expected = json!({"ref": "pkg:cargo/velero@0.1.0", "dependsOn": ["pkg:cargo/linked@1.0.0%2Bx"]});
        assert_eq!(bill["dependencies"][2], expected);
    }
}
