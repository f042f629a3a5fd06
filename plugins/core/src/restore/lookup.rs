//! What actions look up in the cluster, once a restore.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use tokio::sync::OnceCell;
use velero_api::labels;
use velero_cluster::{Cluster, RawItem, ResourceType, types};
use velero_plugin::{Error, Result};

const PAGE_SIZE: u32 = 500;

/// The settings of an action: the data of the one ConfigMap in Velero's namespace that is labelled for it.
pub(super) struct PluginConfig {
    cluster: Cluster,
    namespace: String,
    selector: String,
    found: OnceCell<Vec<ConfigMap>>,
}

/// The part of a ConfigMap that matters.
#[derive(Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

impl PluginConfig {
    /// The settings of the restore item action of that name, not read yet.
    pub(super) fn new(cluster: &Cluster, namespace: &str, action: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            selector: format!("{},{action}=RestoreItemAction", labels::PLUGIN_CONFIG),
            found: OnceCell::new(),
        }
    }

    /// The settings; empty when there is no ConfigMap. Two ConfigMaps are an error, for none is better than the other.
    pub(super) async fn data(&self) -> Result<&BTreeMap<String, String>> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        match self.found.get_or_try_init(|| self.read()).await?.as_slice() {
            [] => Ok(&NONE),
            [only] => Ok(&only.data),
            several => {
                let names: Vec<_> = several.iter().map(|found| found.metadata.name.as_str()).collect();
                Err(Error::Item(format!(
                    "ConfigMaps {} of namespace {} all have the labels {}; leave them on one",
                    names.join(", "),
                    self.namespace,
                    self.selector,
                )))
            }
        }
    }

    async fn read(&self) -> Result<Vec<ConfigMap>> {
        let parse = |item: &RawItem| {
            serde_json::from_slice(item.as_bytes()).map_err(|error| {
                let what = types::CONFIG_MAPS.item(item.namespace(), item.name());
                Error::Item(format!("cannot read {what}: {error}"))
            })
        };
        let items = list(&self.cluster, &types::CONFIG_MAPS, Some(&self.namespace), Some(&self.selector)).await?;
        items.iter().map(parse).collect()
    }
}

/// The names of all objects of a type, of one namespace or of the cluster.
pub(super) async fn names(
    cluster: &Cluster,
    resource_type: &ResourceType,
    namespace: Option<&str>,
) -> Result<BTreeSet<String>> {
    let items = list(cluster, resource_type, namespace, None).await?;
    Ok(items.iter().map(|item| item.name().to_owned()).collect())
}

async fn list(
    cluster: &Cluster,
    resource_type: &ResourceType,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<RawItem>> {
    let mut items = Vec::new();
    let mut pages = cluster.list_pages(resource_type, namespace, selector, PAGE_SIZE).boxed();
    while let Some(page) = pages.try_next().await? {
        items.extend(page.items);
    }
    Ok(items)
}
