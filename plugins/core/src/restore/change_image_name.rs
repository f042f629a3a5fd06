//! Images may have another name where a backup is restored, for example that of another registry.
//!
//! Each value of the plugin config reads `old,new`. The first one, in the order of their keys, whose old part stands in
//! an image name replaces it there.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;
use velero_cluster::Cluster;
use velero_plugin::item::{elements_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::lookup::PluginConfig;

const NAME: &str = "velero.io/change-image-name";

/// Changes image names as the plugin config says.
pub struct RestoreAction {
    config: PluginConfig,
}

impl RestoreAction {
    /// Reads its config from `namespace` when it is first needed.
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self { config: PluginConfig::new(cluster, namespace, NAME) }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[
            "deployments.apps",
            "statefulsets.apps",
            "daemonsets.apps",
            "replicasets.apps",
            "replicationcontrollers",
            "jobs.batch",
            "cronjobs.batch",
            "pods",
        ]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let rows = self.config.data().await?;
        if rows.is_empty() {
            return Ok(RestoreItemOutcome::default());
        }
        Ok(RestoreItemOutcome::changed(input.item, |item| rename(item, rows)))
    }
}

fn rename(item: &mut Value, rows: &BTreeMap<String, String>) {
    let pod_spec = match text(item, "/kind") {
        "Pod" => "/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    for containers in ["containers", "initContainers"] {
        for container in elements_mut(item, &format!("{pod_spec}/{containers}")) {
            if let Some(name) = new_name(text(container, "/image"), rows) {
                container["image"] = name.into();
            }
        }
    }
}

/// What the first row that fits makes of an image name.
fn new_name(image: &str, rows: &BTreeMap<String, String>) -> Option<String> {
    let pairs = rows.values().filter_map(|row| row.split_once(',')).filter(|(_, new)| !new.is_empty());
    let mut pairs = pairs.map(|(old, new)| (old.trim(), new.trim()));
    let (old, new) = pairs.find(|(old, _)| !old.is_empty() && image.contains(old))?;
    Some(image.replace(old, new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(values: &[&str]) -> BTreeMap<String, String> {
        values.iter().enumerate().map(|(index, row)| (format!("case{index}"), (*row).to_owned())).collect()
    }

    #[test]
    fn the_first_row_that_fits_replaces_each_place_it_fits_in() {
        let image = "1.1.1.1:5000/abc:test";
        for (row, image, expected) in [
            (vec!["1.1.1.1:5000  ,  2.2.2.2:3000"], image, Some("2.2.2.2:3000/abc:test")),
            (vec!["1.1.1.1:5000,2.2.2.2:3000"], image, Some("2.2.2.2:3000/abc:test")),
            (vec!["abc:test,myproject:latest"], image, Some("1.1.1.1:5000/myproject:latest")),
            (vec!["5000,3333"], image, Some("1.1.1.1:3333/abc:test")),
            (vec!["test,latest"], image, Some("1.1.1.1:5000/abc:latest")),
            (vec!["dev/,test/"], "dev/image1:dev", Some("test/image1:dev")),
            (vec!["dev,test"], "dev/image1:dev", Some("test/image1:test")),
            (vec!["xyz,abc", "abc,def", "abc,ghi"], image, Some("1.1.1.1:5000/def:test")),
            (vec!["abc, "], "abc/web", Some("/web")),
            (vec!["abc,d,e"], "abc", Some("d,e")),
            (vec!["no delimiter", "abc,"], image, None),
            (vec![",new"], image, None),
            (vec!["xyz,abc"], image, None),
            (vec!["abc,def"], "", None),
        ] {
            assert_eq!(new_name(image, &rows(&row)).as_deref(), expected, "{row:?} {image}");
        }
    }

    #[test]
    fn containers_are_found_in_every_kind() {
        let containers = |image: &str| json!({"containers": [{"image": image}, {"image": "other"}], "initContainers": [{"image": image}, {}]});
        let template = |image: &str| json!({"template": {"spec": containers(image)}});
        for (kind, before, after) in [
            ("Pod", containers("old/web"), containers("new/web")),
            ("Deployment", template("old/web"), template("new/web")),
            ("Job", template("old/web"), template("new/web")),
            (
                "CronJob",
                json!({"jobTemplate": {"spec": template("old/web")}}),
                json!({"jobTemplate": {"spec": template("new/web")}}),
            ),
        ] {
            let mut item = json!({"kind": kind, "spec": before});
            rename(&mut item, &rows(&["old,new"]));
            assert_eq!(item["spec"], after, "{kind}");
        }
    }
}
