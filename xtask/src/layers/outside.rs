//! What comes in from outside: the licences, sources and versions of the crates we use, held against `deny.toml`.
//!
//! `cargo deny check bans licenses sources` says the same of the same file, and more; but it is a program with hundreds of
//! crates that every machine would have to compile first. This much `cargo metadata` tells within a second.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::licences;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What `deny.toml` says.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// The licences we accept.
    licences: Vec<String>,
    /// Crates that are not used.
    banned: Vec<String>,
    /// Crates of which there is one version: their types go from one of our crates to another, or they are large.
    once: Vec<String>,
    /// Features of crates that are not switched on.
    banned_features: Vec<(String, String)>,
}

impl Rules {
    /// Reads as much of the file as is needed here: one entry a line, as it is written.
    pub(super) fn read(text: &str) -> Self {
        let mut rules = Self::default();
        let (mut section, mut of_crate) = ("", String::new());
        for line in text.lines().map(str::trim) {
            let mut quoted = line.split('"').skip(1).step_by(2).map(str::to_owned);
            match section {
                _ if line.starts_with('[') => section = line,
                "[licenses]" if line.starts_with("allow =") => rules.licences.extend(quoted),
                "[bans]" if line.starts_with("{ crate =") => match line.contains("deny-multiple-versions = true") {
                    true => rules.once.extend(quoted.next()),
                    false => rules.banned.extend(quoted.next()),
                },
                "[[bans.features]]" if line.starts_with("crate =") => of_crate = quoted.next().unwrap_or_default(),
                "[[bans.features]]" if line.starts_with("deny =") => {
                    rules.banned_features.extend(quoted.map(|feature| (of_crate.clone(), feature)));
                }
                _ => {}
            }
        }
        rules
    }

    /// What is wrong with the crates of `cargo metadata`.
    pub(super) fn violations(&self, metadata: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let name = text(&package["name"]);
            versions.entry(name).or_default().insert(text(&package["version"]));
            let licence = text(&package["license"]);
            if !licences::is_allowed(licence, &self.licences) {
                wrong.push(format!("{name} has the licence {licence:?}, which deny.toml does not allow"));
            }
            if !is_ours(package, metadata) && package["source"] != CRATES_IO {
                wrong.push(format!("{name} does not come from crates.io"));
            }
            if self.banned.iter().any(|banned| banned == name) {
                wrong.push(format!("{name} is not to be used (deny.toml)"));
            }
        }
        let twice = self.once.iter().filter_map(|name| Some((name, versions.get(name.as_str())?)));
        for (name, versions) in twice.filter(|(_, versions)| versions.len() > 1) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            wrong.push(format!("{name} is there in the versions {}", versions.join(", ")));
        }
        wrong.extend(self.features(metadata));
        wrong
    }

    fn features(&self, metadata: &Value) -> Vec<String> {
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let names: BTreeMap<&str, &str> =
            packages.map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut wrong = Vec::new();
        for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
            let switched_on: Vec<&str> = node["features"].as_array().into_iter().flatten().map(text).collect();
            for (name, feature) in &self.banned_features {
                if names.get(text(&node["id"])) == Some(&name.as_str()) && switched_on.contains(&feature.as_str()) {
                    wrong.push(format!("{name} has the feature {feature} switched on (deny.toml)"));
                }
            }
        }
        wrong
    }
}

fn is_ours(package: &Value, metadata: &Value) -> bool {
    metadata["workspace_members"].as_array().is_some_and(|members| members.contains(&package["id"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"
[licenses]
allow = ["MIT", "Apache-2.0"]

[bans]
multiple-versions = "warn"
deny = [
    { crate = "openssl-sys", reason = "no" },
    { crate = "rustls", deny-multiple-versions = true },
]

[[bans.features]]
crate = "serde_json"
deny = ["preserve_order"]
"#;

    fn package(name: &str, version: &str, licence: &str, source: Option<&str>) -> Value {
        json!({"id": format!("{name}@{version}"), "name": name, "version": version, "license": licence, "source": source})
    }

    fn wrong(packages: &[Value], nodes: &Value) -> Vec<String> {
        let metadata =
            json!({"packages": packages, "workspace_members": ["velero@0.1.0"], "resolve": {"nodes": nodes}});
        Rules::read(TEXT).violations(&metadata)
    }

    #[test]
    fn what_the_file_allows_is_fine() {
        let packages = [
            package("velero", "0.1.0", "Apache-2.0", None),
            package("rustls", "0.23.0", "MIT OR ISC", Some(CRATES_IO)),
            package("base64", "0.22.0", "MIT", Some(CRATES_IO)),
            package("base64", "0.23.0", "MIT", Some(CRATES_IO)),
        ];
        assert_eq!(wrong(&packages, &json!([])), [""; 0]);
    }

    #[test]
    fn what_it_does_not_allow_is_named() {
        let packages = [
            package("copyleft", "1.0.0", "GPL-3.0", Some(CRATES_IO)),
            package("elsewhere", "1.0.0", "MIT", Some("git+https://example.com/elsewhere")),
            package("beside", "1.0.0", "MIT", None),
            package("openssl-sys", "1.0.0", "MIT", Some(CRATES_IO)),
            package("rustls", "0.22.0", "MIT", Some(CRATES_IO)),
            package("rustls", "0.23.0", "MIT", Some(CRATES_IO)),
            package("serde_json", "1.0.0", "MIT", Some(CRATES_IO)),
        ];
        let nodes = json!([{"id": "serde_json@1.0.0", "features": ["std", "preserve_order"]}]);
        let expected = [
            "copyleft has the licence \"GPL-3.0\", which deny.toml does not allow",
            "elsewhere does not come from crates.io",
            "beside does not come from crates.io",
            "openssl-sys is not to be used (deny.toml)",
            "rustls is there in the versions 0.22.0, 0.23.0",
            "serde_json has the feature preserve_order switched on (deny.toml)",
        ];
        assert_eq!(wrong(&packages, &nodes), expected);
    }

    #[test]
    fn the_file_of_the_project_can_be_read() {
        let rules = Rules::read(include_str!("../../../deny.toml"));
        assert!(rules.licences.len() > 10 && !rules.banned.is_empty() && !rules.once.is_empty(), "{rules:?}");
        assert!(rules.banned_features.contains(&("serde_json".to_owned(), "preserve_order".to_owned())));
    }
}
