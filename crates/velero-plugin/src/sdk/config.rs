//! The settings an administrator gives a plugin.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use serde_json::Value;
use velero_api::labels;
use velero_cluster::{Cluster, types};

use crate::{Error, PluginKind, Result};

/// The settings of a plugin: the data of the one ConfigMap in Velero's namespace with the labels
/// `velero.io/plugin-config` and `<name of the plugin>=<kind>`. Empty when there is none; two are an error, for none is
/// better than the other.
pub async fn plugin_config(
    cluster: &Cluster,
    namespace: &str,
    kind: PluginKind,
    name: &str,
) -> Result<BTreeMap<String, String>> {
    let selector = format!("{},{name}={kind}", labels::PLUGIN_CONFIG);
    let pages =
        cluster.list_pages(&types::CONFIG_MAPS, Some(namespace), Some(&selector), 500).map_ok(|page| page.items);
    let found: Vec<_> = pages.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
    match found.as_slice() {
        [] => Ok(BTreeMap::new()),
        [only] => Ok(data(&only.to_value()?)),
        several => {
            let names: Vec<_> = several.iter().map(|found| found.name()).collect();
            let names = names.join(", ");
            Err(Error::Failed(format!("ConfigMaps {names} all have the labels {selector}; leave them on one")))
        }
    }
}

fn data(config_map: &Value) -> BTreeMap<String, String> {
    let entries = config_map["data"].as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
