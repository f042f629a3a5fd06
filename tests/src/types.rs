//! The types of a cluster whose objects can be made, listed and deleted.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use velero_testkit::machine::Machine;

/// A type, in the version that the API server prefers.
#[derive(Debug)]
pub struct Type {
    group: String,
    /// Group and version, as objects name them.
    version: String,
    kind: String,
    plural: String,
}

impl Type {
    /// Its name: `configmaps`, `deployments.apps`.
    pub fn name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// All its objects in all namespaces.
    pub fn objects(&self, machine: &Machine) -> Result<Vec<Value>> {
        let mut objects = machine.items(&format!("{}/{}", root(&self.version), self.plural))?;
        for object in &mut objects {
            // The objects of a list leave out what the list says.
            object["apiVersion"] = json!(self.version);
            object["kind"] = json!(self.kind);
        }
        Ok(objects)
    }
}

/// All types of a cluster.
pub fn all(machine: &Machine) -> Result<Vec<Type>> {
    let mut types = of_version(machine, "", "v1")?;
    let groups = machine.read("/apis")?;
    for group in groups["groups"].as_array().context("the API server names no groups")? {
        let name = group["name"].as_str().context("a group without a name")?;
        let preferred = &group["preferredVersion"]["groupVersion"];
        let others = group["versions"].as_array().into_iter().flatten().map(|version| &version["groupVersion"]);
        let mut known = BTreeSet::new();
        for version in [preferred].into_iter().chain(others.filter(|version| *version != preferred)) {
            let version = version.as_str().context("a group with a version that has no name")?;
            let found = of_version(machine, name, version)?;
            types.extend(found.into_iter().filter(|found| known.insert(found.plural.clone())));
        }
    }
    Ok(types)
}

fn of_version(machine: &Machine, group: &str, version: &str) -> Result<Vec<Type>> {
    let list = machine.read(&root(version))?;
    let resources = list["resources"].as_array().into_iter().flatten();
    let able = |resource: &&Value| {
        let verbs = resource["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let verbs: BTreeSet<&str> = verbs.collect();
        ["list", "create", "delete"].iter().all(|verb| verbs.contains(verb))
    };
    let text = |resource: &Value, field: &str| resource[field].as_str().unwrap_or_default().to_owned();
    let named = |resource: &Value| Type {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text(resource, "kind"),
        plural: text(resource, "name"),
    };
    Ok(resources.filter(able).map(named).collect())
}

/// Where the API server serves a version.
fn root(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}
