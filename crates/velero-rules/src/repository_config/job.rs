//! How the Jobs are run that maintain repositories.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::read;
use crate::Unusable;
use crate::quantity::Quantity;

/// The key with what counts for all repositories.
const GLOBAL: &str = "global";
/// What may be said for each repository, and what for all of them only.
const FOR_EACH: [&str; 3] = ["loadAffinity", "podResources", "keepLatestMaintenanceJobs"];
const FOR_ALL: [&str; 3] = ["priorityClassName", "podAnnotations", "podLabels"];

/// How the Jobs of a repository are run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobConfig {
    /// The nodes they run on; the first entry counts.
    pub load_affinity: Option<Vec<LoadAffinity>>,
    /// What they ask for and may use.
    pub pod_resources: Option<PodResources>,
    /// How many are kept.
    pub keep_latest_maintenance_jobs: Option<u32>,
    /// Their priority class; for all repositories only.
    pub priority_class_name: Option<String>,
    /// Annotations of their pods; for all repositories only.
    pub pod_annotations: Option<BTreeMap<String, String>>,
    /// Labels of their pods; for all repositories only.
    pub pod_labels: Option<BTreeMap<String, String>>,
}

/// Which nodes are meant.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadAffinity {
    /// The labels of the nodes.
    pub node_selector: LabelSelector,
}

/// What a pod asks for and may use; empty and 0 mean no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodResources {
    /// Processor time it asks for.
    #[serde(rename = "cpuRequest")]
    pub cpu_request: String,
    /// Processor time it may use.
    #[serde(rename = "cpuLimit")]
    pub cpu_limit: String,
    /// Memory it asks for.
    #[serde(rename = "memoryRequest")]
    pub memory_request: String,
    /// Memory it may use.
    #[serde(rename = "memoryLimit")]
    pub memory_limit: String,
    /// Disk it asks for.
    #[serde(rename = "ephemeralStorageRequest")]
    pub ephemeral_storage_request: String,
    /// Disk it may use.
    #[serde(rename = "ephemeralStorageLimit")]
    pub ephemeral_storage_limit: String,
}

impl JobConfig {
    /// What a ConfigMap says for one repository, whose key is `<namespace>-<location>-<type>`: its own settings first, then
    /// those for all.
    pub fn read(data: &BTreeMap<String, String>, repository: &str) -> Result<Self, Unusable> {
        let value = |key: &str| data.get(key).map_or(Ok(Self::default()), |text| read::<Self>(key, text));
        let (own, global) = (value(repository)?, value(GLOBAL)?);
        let own_affinity = own.load_affinity.filter(|affinity| !affinity.is_empty());
        let config = Self {
            load_affinity: own_affinity.or(global.load_affinity),
            pod_resources: own.pod_resources.or(global.pod_resources),
            keep_latest_maintenance_jobs: own.keep_latest_maintenance_jobs.or(global.keep_latest_maintenance_jobs),
            priority_class_name: global.priority_class_name,
            pod_annotations: global.pod_annotations,
            pod_labels: global.pod_labels,
        };
        config.resources()?;
        Ok(config)
    }

    /// Says what is wrong with any value of a ConfigMap.
    pub fn check(data: &BTreeMap<String, String>) -> Result<(), Unusable> {
        for (key, text) in data {
            let config = read::<Self>(key, text)?;
            config.resources().map_err(|error| Unusable(format!("key {key:?}: {error}")))?;
        }
        Ok(())
    }

    /// The settings in a ConfigMap that have no effect, each behind the key it stands in: what was misspelled would have none
    /// in silence.
    pub fn ignored(data: &BTreeMap<String, String>) -> Vec<String> {
        let mut ignored = Vec::new();
        for (key, text) in data {
            let settings: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
            let counts = |name: &str| FOR_EACH.contains(&name) || key == GLOBAL && FOR_ALL.contains(&name);
            ignored.extend(settings.keys().filter(|name| !counts(name)).map(|name| format!("{key}.{name}")));
        }
        ignored
    }

    /// What the pod asks for and may use.
    pub fn resources(&self) -> Result<ResourceRequirements, Unusable> {
        self.pod_resources.as_ref().map_or_else(|| Ok(ResourceRequirements::default()), PodResources::requirements)
    }

    /// The nodes the pod may run on.
    pub fn affinity(&self) -> Option<Affinity> {
        let selector = &self.load_affinity.as_ref()?.first()?.node_selector;
        let by_label = selector.match_labels.iter().flatten().map(|(key, value)| NodeSelectorRequirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: Some(vec![value.clone()]),
        });
        let by_expression = selector.match_expressions.iter().flatten().map(|expression| NodeSelectorRequirement {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone(),
        });
        let wanted: Vec<_> = by_label.chain(by_expression).collect();
        if wanted.is_empty() {
            return None;
        }
        let term = NodeSelectorTerm { match_expressions: Some(wanted), match_fields: None };
        Some(Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: vec![term],
                }),
                ..NodeAffinity::default()
            }),
            ..Affinity::default()
        })
    }
}

impl PodResources {
    fn requirements(&self) -> Result<ResourceRequirements, Unusable> {
        let pairs = [
            ("cpu", "cpu", &self.cpu_request, &self.cpu_limit),
            ("memory", "memory", &self.memory_request, &self.memory_limit),
            ("ephemeral-storage", "ephemeralStorage", &self.ephemeral_storage_request, &self.ephemeral_storage_limit),
        ];
        let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
        for (resource, field, request, limit) in pairs {
            let (asked, most) = (amount(field, "Request", request)?, amount(field, "Limit", limit)?);
            if !most.is_zero() && asked > most {
                let problem = format!("podResources.{field}Request {request:?} is more than {field}Limit {limit:?}");
                return Err(Unusable(problem));
            }
            if !asked.is_zero() {
                requests.insert(resource.to_owned(), Amount(request.clone()));
            }
            if !most.is_zero() {
                limits.insert(resource.to_owned(), Amount(limit.clone()));
            }
        }
        let some = |amounts: BTreeMap<_, _>| Some(amounts).filter(|amounts| !amounts.is_empty());
        Ok(ResourceRequirements { requests: some(requests), limits: some(limits), ..Default::default() })
    }
}

fn amount(field: &str, which: &str, text: &str) -> Result<Quantity, Unusable> {
    if text.is_empty() {
        return Ok(Quantity::default());
    }
    text.parse().map_err(|error| Unusable(format!("podResources.{field}{which}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_repository_comes_before_all_and_some_things_are_for_all_only() {
        let maps = data(&[
            (
                "global",
                r#"{"keepLatestMaintenanceJobs": 1, "priorityClassName": "low", "podLabels": {"a": "b"},
                    "loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "slow"}}}],
                    "podResources": {"cpuRequest": "100m", "cpuLimit": "1", "memoryLimit": "0"}}"#,
            ),
            (
                "shop-default-kopia",
                r#"{"keepLatestMaintenanceJobs": 7, "priorityClassName": "high", "podAnnotations": {"x": "y"},
                    "loadAffinity": [{"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]}"#,
            ),
        ]);
        let own = JobConfig::read(&maps, "shop-default-kopia").unwrap();
        assert_eq!((own.keep_latest_maintenance_jobs, own.priority_class_name.as_deref()), (Some(7), Some("low")));
        assert_eq!((own.pod_annotations.clone(), own.pod_labels.as_ref().unwrap().len()), (None, 1));
        let affinity = serde_json::to_string(&own.affinity()).unwrap();
        assert!(affinity.contains(r#""operator":"Exists""#) && !affinity.contains("disk"), "{affinity}");
        let resources = own.resources().unwrap();
        assert_eq!(resources.requests.unwrap()["cpu"].0, "100m");
        assert!(!resources.limits.unwrap().contains_key("memory"), "zero means no bound");

        let other = JobConfig::read(&maps, "other-default-kopia").unwrap();
        assert_eq!(other.keep_latest_maintenance_jobs, Some(1));
        let affinity = serde_json::to_string(&other.affinity()).unwrap();
        assert!(affinity.contains(r#""key":"disk","operator":"In","values":["slow"]"#), "{affinity}");
        assert_eq!(JobConfig::read(&BTreeMap::new(), "x").unwrap(), JobConfig::default());
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let all = r#"{"loadAffinity": [], "podResources": {}, "keepLatestMaintenanceJobs": 1, "priorityClassName": "low",
            "podAnnotations": {}, "podLabels": {}}"#;
        assert_eq!(JobConfig::ignored(&data(&[("global", all), ("a-b-kopia", "null")])), Vec::<String>::new());
        let own = r#"{"podLabels": {}, "podResources": {}}"#;
        let maps = data(&[("global", r#"{"keepLatest": 1}"#), ("a-b-kopia", own)]);
        assert_eq!(JobConfig::ignored(&maps), ["a-b-kopia.podLabels", "global.keepLatest"]);
    }

    #[test]
    fn nonsense_is_named_with_its_key() {
        JobConfig::check(&data(&[("global", "{}"), ("a-b-kopia", "null")])).unwrap();
        for (value, piece) in [
            ("no json", "expected"),
            (r#"{"keepLatestMaintenanceJobs": "many"}"#, "invalid type"),
            (r#"{"keepLatestMaintenanceJobs": -1}"#, "invalid value"),
            (r#"{"podResources": {"cpuRequest": "lots"}}"#, "podResources.cpuRequest"),
            (r#"{"podResources": {"memoryRequest": "2Gi", "memoryLimit": "1Gi"}}"#, "more than memoryLimit"),
        ] {
            let problem = JobConfig::check(&data(&[("global", value)])).unwrap_err().0;
            assert!(problem.starts_with("key \"global\": ") && problem.contains(piece), "{value}: {problem}");
        }
    }
}
