//! Velero's custom resource definitions in a machine.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use http::Request;
use serde_json::Value;

use super::api_client::explained;
use crate::machine::Machine;

/// Definitions with the label of Velero's.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector=component%3Dvelero";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// By the name of a definition, its UID and its generation: they are others once somebody has changed or replaced it.
type Revisions = BTreeMap<String, (String, i64)>;

/// The definitions as this process left them, by the init process of the machine they are in.
static INSTALLED: Mutex<BTreeMap<u32, Revisions>> = Mutex::new(BTreeMap::new());

impl Machine {
    /// Makes the API server serve Velero's kinds. The definitions are ours, for the original too: they equal its own and add
    /// what only we write. They are not written again where they are still as this process left them: nearly every test wants
    /// them, and an API server that compares all of them is busy for a tenth of a second.
    pub fn install_velero_definitions(&self) -> Result<()> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = installed.get(&self.init())
            && *known == self.velero_definitions()?
        {
            return Ok(());
        }
        let definitions = velero_api::crd::all();
        for definition in &definitions {
            self.apply(&definition.to_string()).context("cannot install the custom resource definitions")?;
        }
        let names = definitions.iter().filter_map(|definition| definition["metadata"]["name"].as_str());
        // A server that starts asks once which types there are.
        self.wait_for_definitions(&names.collect::<Vec<_>>())?;
        installed.insert(self.init(), self.velero_definitions()?);
        Ok(())
    }

    fn velero_definitions(&self) -> Result<Revisions> {
        let request = Request::get(DEFINITIONS).header("Accept", METADATA_ONLY).body(Vec::new())?;
        let text = self.ask(request)?.map_err(|error| explained("GET", DEFINITIONS, error))?;
        let list: Value = serde_json::from_str(&text)?;
        Ok(revisions(&list))
    }
}

fn revisions(list: &Value) -> Revisions {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let definitions = list["items"].as_array().into_iter().flatten().map(|definition| &definition["metadata"]);
    definitions
        .map(|metadata| {
            let revision = (text(&metadata["uid"]), metadata["generation"].as_i64().unwrap_or_default());
            (text(&metadata["name"]), revision)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_that_was_changed_or_made_again_has_another_revision() {
        let list = |uid: &str, generation: i64| {
            revisions(&json!({"items": [{"metadata": {"name": "a", "uid": uid, "generation": generation}}]}))
        };
        assert_eq!(list("1", 1), list("1", 1));
        assert_ne!(list("1", 1), list("1", 2));
        assert_ne!(list("1", 1), list("2", 1));
        assert_ne!(list("1", 1), revisions(&json!({"items": []})));
    }
}
