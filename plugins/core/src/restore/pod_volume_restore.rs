//! Pods whose volumes are filled from copies wait for that in an init container.
//!
//! The plugin config may say which image it has, what it may use and as whom it runs: `image`, `cpuRequest`, `memRequest`,
//! `cpuLimit`, `memLimit`, `secCtxRunAsUser`, `secCtxRunAsGroup`, `secCtxAllowPrivilegeEscalation`, `secCtx`, `command`.

use std::sync::OnceLock;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::metadata;
use velero_api::records::PodVolumeInfo;
use velero_cluster::{Cluster, types};
use velero_plugin::item::{describe, elements, filled, namespace};
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};
use velero_rules::pod_volumes::{WaitContainer, copies_of_pod, remove_wait_containers};

use super::lookup::PluginConfig;

const NAME: &str = "velero.io/pod-volume-restore";
/// The Deployment of the server, and its container in it.
const SERVER: &str = "velero";

/// Adds the init container that waits for the volumes of a pod.
pub struct RestoreAction {
    cluster: Cluster,
    namespace: String,
    config: PluginConfig,
    server_image: OnceCell<String>,
    copies: OnceLock<Vec<PodVolumeInfo>>,
}

impl RestoreAction {
    /// Reads its config, and the image of the server, from `namespace` when they are first needed.
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            config: PluginConfig::new(cluster, namespace, NAME),
            server_image: OnceCell::new(),
            copies: OnceLock::new(),
        }
    }

    /// The image of the server, which has the program that waits.
    async fn server_image(&self) -> Result<&str> {
        let found = self.server_image.get_or_try_init(|| self.find_server_image()).await;
        found.map(String::as_str)
    }

    async fn find_server_image(&self) -> Result<String> {
        let deployment = self.cluster.get(types::DEPLOYMENTS.item(Some(&self.namespace), SERVER)).await?;
        let deployment = deployment.unwrap_or_default();
        let image = server_container(&deployment).and_then(|container| filled(container, "/image"));
        image.map(str::to_owned).ok_or_else(|| {
            Error::Item(format!(
                "the image of the init container that waits for volumes is not known: no Deployment {SERVER} in namespace {} \
                 names one; write one with registry and tag, such as registry.example.com/velero:v1, into key image of the \
                 plugin config of {NAME}",
                self.namespace
            ))
        })
    }

    async fn add_container(&self, input: RestoreItemInput<'_>, volumes: Vec<&str>) -> Result<RestoreItemOutcome> {
        let config = self.config.data().await?;
        // A name without a registry is none.
        let is_named = config.get("image").is_some_and(|image| image.contains('/'));
        let server_image = match self.server_image().await {
            Err(_) if is_named => "",
            image => image?,
        };
        let container = WaitContainer { server_image, restore_uid: metadata::uid(input.restore), volumes, config };
        let mut pod = input.item.clone();
        container.insert(&mut pod).map_err(|error| {
            let pod = describe(input.item);
            Error::Item(format!("{pod}: the init container that waits for its volumes cannot be made: {error}"))
        })?;
        Ok(RestoreItemOutcome { updated_item: Some(pod), ..RestoreItemOutcome::default() })
    }
}

/// The container of the server, beside which somebody may have put others.
fn server_container(deployment: &Value) -> Option<&Value> {
    let containers = || elements(deployment, "/spec/template/spec/containers");
    containers().find(|container| container["name"] == SERVER).or_else(|| containers().next())
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    fn fills_volumes(&self, copies: &[PodVolumeInfo]) {
        self.copies.get_or_init(|| copies.to_vec());
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let copies = self.copies.get().map(Vec::as_slice).unwrap_or_default();
        // The namespace that the pod had: the mapping may have been applied to the item already.
        let wanted = copies_of_pod(copies, namespace(input.item_from_backup), input.item);
        if wanted.is_empty() {
            return Ok(RestoreItemOutcome::changed(input.item, |pod: &mut Value| remove_wait_containers(pod)));
        }
        self.add_container(input, wanted.into_keys().collect()).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_image_is_that_of_the_server_and_not_of_what_runs_beside_it() {
        let (server, beside) = (json!({"name": "velero", "image": "s:1"}), json!({"name": "proxy", "image": "p:1"}));
        for (containers, expected) in [
            (json!([&server, &beside]), Some("s:1")),
            (json!([&beside, &server]), Some("s:1")),
            (json!([{"name": "other", "image": "o:1"}]), Some("o:1")),
            (json!([{"name": "velero"}]), None),
            (json!(null), None),
        ] {
            let deployment = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            let image = server_container(&deployment).and_then(|container| filled(container, "/image"));
            assert_eq!(image, expected, "{deployment}");
        }
    }
}
