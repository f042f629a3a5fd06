//! The custom resource definitions of snapshots, from the Go module of their client.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Part;
use crate::cache::{self, Recipe};
use crate::install;
use crate::machine::Machine;
use crate::tool::{Tool, go_sources};

const MODULE: &str = "external-snapshotter";
const CLIENT: &str = "github.com/kubernetes-csi/external-snapshotter/client/v8";
/// The version of group snapshots that our snapshot controller writes.
const GROUPS_STORED_AS: &str = "v1beta1";
/// A list of each: it is answered once the definitions are in force.
const LISTS: [&str; 2] = [
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
    "/apis/groupsnapshot.storage.k8s.io/v1beta2/volumegroupsnapshots",
];

/// Makes the API server know snapshots and group snapshots.
pub struct SnapshotDefinitions;

impl SnapshotDefinitions {
    pub(crate) fn file() -> Result<PathBuf> {
        let module = install::repository_root().join("testbed").join(MODULE);
        let recipe = Recipe::default().text(&fs::read_to_string(module.join("go.mod"))?).text(GROUPS_STORED_AS);
        let folder = cache::entry(Tool::SnapshotDefinitions, recipe, |folder| {
            let definitions = definitions()?;
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            Ok(fs::write(folder.join("definitions.json"), list.to_string())?)
        })?;
        Ok(folder.join("definitions.json"))
    }
}

impl Part for SnapshotDefinitions {
    fn name(&self) -> &'static str {
        "snapshot-definitions"
    }

    fn install(&self) -> Result<()> {
        Self::file().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        machine.apply(&fs::read_to_string(Self::file()?)?)
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        LISTS.iter().try_for_each(|list| machine.read(list).map(drop))
    }
}

fn definitions() -> Result<Vec<Value>> {
    let folder = go_sources(MODULE, CLIENT)?.join("config/crd");
    let mut definitions = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("no definitions in {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        let mut definition: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
        if definition["kind"] == "CustomResourceDefinition" {
            store_groups_as_written(&mut definition);
            definitions.push(definition);
        }
    }
    Ok(definitions)
}

/// Clients of Velero use a newer version of group snapshots than our snapshot controller. They differ in one list that
/// only the controller uses, so the API server may hand out one as the other, without a webhook that converts.
fn store_groups_as_written(definition: &mut Value) {
    if definition["spec"]["group"] != "groupsnapshot.storage.k8s.io" {
        return;
    }
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        version["storage"] = (version["name"] == GROUPS_STORED_AS).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_group_snapshots_change_the_version_they_are_stored_as() {
        let definition = |group: &str| {
            let versions = [("v1beta1", false), ("v1beta2", true)];
            let versions = versions.map(|(name, storage)| json!({"name": name, "storage": storage}));
            json!({"spec": {"group": group, "versions": versions, "conversion": {"strategy": "Webhook"}}})
        };
        let mut groups = definition("groupsnapshot.storage.k8s.io");
        store_groups_as_written(&mut groups);
        assert_eq!(groups["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(groups["spec"]["versions"][0]["storage"], true);
        assert_eq!(groups["spec"]["versions"][1]["storage"], false);
        let mut others = definition("snapshot.storage.k8s.io");
        store_groups_as_written(&mut others);
        assert_eq!(others, definition("snapshot.storage.k8s.io"));
    }
}
