//! What happens once, before the controllers run.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use velero_api::GROUP;
use velero_cluster::{Cluster, Error as ClusterError};

use crate::runtime::error::{Error, Result};

/// Refuses a cluster without the namespace or without the definitions of Velero's kinds.
pub(crate) async fn check_cluster(cluster: &Cluster, namespace: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(cluster.client().clone());
    let found = api.get_metadata_opt(namespace).await;
    let found = found.map_err(|error| ClusterError::from_kube(format!("get namespace {namespace}"), error))?;
    if found.is_none() {
        return Err(Error::MissingNamespace { namespace: namespace.to_owned() });
    }
    let mut served = BTreeSet::new();
    for version in ["v1", "v2alpha1"] {
        match cluster.client().list_api_group_resources(&format!("{GROUP}/{version}")).await {
            Ok(list) => served.extend(list.resources.into_iter().map(|resource| (version, resource.name))),
            Err(error) => match ClusterError::from_kube(format!("discover {GROUP}/{version}"), error) {
                ClusterError::NotFound(_) => {}
                error => return Err(error.into()),
            },
        }
    }
    let names = missing_definitions(&served);
    if names.is_empty() { Ok(()) } else { Err(Error::MissingDefinitions { names }) }
}

fn missing_definitions(served: &BTreeSet<(&str, String)>) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let wanted = velero_api::crd::all();
    let wanted =
        wanted.iter().map(|crd| (text(&crd["spec"]["versions"][0]["name"]), text(&crd["spec"]["names"]["plural"])));
    let missing = wanted.filter(|(version, plural)| !served.contains(&(version.as_str(), plural.clone())));
    missing.map(|(version, plural)| format!("{plural}.{GROUP} ({version})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_is_not_served_is_named_with_its_version() {
        let all: BTreeSet<_> = velero_api::crd::all()
            .iter()
            .map(|crd| {
                let version = if crd["spec"]["versions"][0]["name"] == "v1" { "v1" } else { "v2alpha1" };
                (version, crd["spec"]["names"]["plural"].as_str().unwrap().to_owned())
            })
            .collect();
        assert!(missing_definitions(&all).is_empty());
        let mut some = all.clone();
        some.remove(&("v1", "backups".to_owned()));
        assert_eq!(missing_definitions(&some), ["backups.velero.io (v1)"]);
        assert_eq!(missing_definitions(&BTreeSet::new()).len(), 13);
    }
}
