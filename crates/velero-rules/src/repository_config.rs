//! What ConfigMaps say of repositories: how they are made, and how the Jobs that maintain them are run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use velero_api::repository::KOPIA;

use crate::Unusable;

mod job;

pub use job::{JobConfig, LoadAffinity, PodResources};

/// How often the full maintenance of a repository runs, by name; read when it is made.
const FULL_MAINTENANCE_INTERVAL: &str = "fullMaintenanceInterval";
/// The most a client keeps of a repository on its disk.
const CACHE_LIMIT: &str = "cacheLimitMB";

/// The settings of repositories, and what a ConfigMap says besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositorySettings {
    /// What goes into `spec.repositoryConfig`.
    pub settings: BTreeMap<String, String>,
    /// Keys that mean nothing.
    pub ignored: Vec<String>,
}

/// Reads the settings for repositories out of a ConfigMap: the JSON object in key `kopia`.
pub fn repository_settings(data: &BTreeMap<String, String>) -> Result<RepositorySettings, Unusable> {
    let mut found = RepositorySettings::default();
    for (key, value) in values(data)? {
        match key.as_str() {
            CACHE_LIMIT => {
                let limit = megabytes(&value)?;
                found.settings.insert(key, limit.to_string());
            }
            FULL_MAINTENANCE_INTERVAL => {
                let interval = value.as_str().unwrap_or_default().to_owned();
                interval_named(&interval).map_err(|error| wrong(&error.0))?;
                found.settings.insert(key, interval);
            }
            _ => found.ignored.push(key),
        }
    }
    Ok(found)
}

/// The most a client keeps of a repository on its disk, in megabytes; none where a ConfigMap does not say, or says 0.
pub fn cache_limit(data: &BTreeMap<String, String>) -> Result<Option<u64>, Unusable> {
    let limit = values(data)?.remove(CACHE_LIMIT).filter(|limit| !limit.is_null());
    let limit = limit.as_ref().map(megabytes).transpose()?;
    Ok(limit.filter(|limit| *limit > 0))
}

/// The JSON object in key `kopia`.
fn values(data: &BTreeMap<String, String>) -> Result<BTreeMap<String, Value>, Unusable> {
    let Some(text) = data.get(KOPIA) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(text).map_err(|error| wrong(&format!("it is no JSON object: {error}")))
}

fn megabytes(limit: &Value) -> Result<u64, Unusable> {
    let number = limit.as_u64().or_else(|| limit.as_str()?.trim().parse().ok());
    number.ok_or_else(|| wrong(&format!("{CACHE_LIMIT} is {limit}; write a number of megabytes")))
}

fn wrong(problem: &str) -> Unusable {
    Unusable(format!("key {KOPIA:?}: {problem}"))
}

/// How often the full maintenance of a new repository runs.
pub fn full_maintenance_interval(settings: &BTreeMap<String, String>) -> Result<Duration, Unusable> {
    interval_named(settings.get(FULL_MAINTENANCE_INTERVAL).map_or("", String::as_str))
}

fn interval_named(name: &str) -> Result<Duration, Unusable> {
    let hours = match name {
        "" | "normalGC" => 24,
        "fastGC" => 12,
        "eagerGC" => 6,
        other => {
            let problem = format!("{FULL_MAINTENANCE_INTERVAL} is {other:?}; write normalGC, fastGC or eagerGC");
            return Err(Unusable(problem));
        }
    };
    Ok(Duration::from_secs(hours * 3600))
}

/// Reads one value of a ConfigMap with settings of Jobs.
fn read<T: for<'de> Deserialize<'de> + Default>(key: &str, text: &str) -> Result<T, Unusable> {
    let read = serde_json::from_str::<Option<T>>(text);
    Ok(read.map_err(|error| Unusable(format!("key {key:?}: {error}")))?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<RepositorySettings, Unusable> {
        repository_settings(&BTreeMap::from([(KOPIA.to_owned(), text.to_owned())]))
    }

    #[test]
    fn settings_of_repositories_are_those_that_mean_something() {
        assert_eq!(repository_settings(&BTreeMap::new()).unwrap(), RepositorySettings::default());
        let found = settings(r#"{"cacheLimitMB": 2048, "fullMaintenanceInterval": "eagerGC", "colour": 1}"#).unwrap();
        assert_eq!((found.settings["cacheLimitMB"].as_str(), &found.ignored[..]), ("2048", &["colour".to_owned()][..]));
        assert_eq!(full_maintenance_interval(&found.settings).unwrap(), Duration::from_secs(6 * 3600));
        assert_eq!(settings(r#"{"cacheLimitMB": "7"}"#).unwrap().settings["cacheLimitMB"], "7");
        for (text, piece) in [
            ("no json", "no JSON object"),
            ("[]", "no JSON object"),
            (r#"{"cacheLimitMB": "much"}"#, "a number of megabytes"),
            (r#"{"cacheLimitMB": -1}"#, "a number of megabytes"),
            (r#"{"fullMaintenanceInterval": "1h"}"#, "normalGC, fastGC or eagerGC"),
        ] {
            let problem = settings(text).unwrap_err().0;
            assert!(problem.starts_with("key \"kopia\": ") && problem.contains(piece), "{text}: {problem}");
        }
    }

    #[test]
    fn the_limit_of_caches_is_read_by_agents_as_by_the_server() {
        let limit = |text: &str| cache_limit(&BTreeMap::from([(KOPIA.to_owned(), text.to_owned())]));
        for (text, expected) in [
            ("{}", None),
            (r#"{"cacheLimitMB": 2048}"#, Some(2048)),
            (r#"{"cacheLimitMB": " 2048 "}"#, Some(2048)),
            (r#"{"cacheLimitMB": 0}"#, None),
            (r#"{"cacheLimitMB": null}"#, None),
        ] {
            assert_eq!(limit(text).unwrap(), expected, "{text}");
        }
        assert_eq!(cache_limit(&BTreeMap::new()).unwrap(), None);
        for (text, piece) in [("no json", "no JSON object"), (r#"{"cacheLimitMB": "much"}"#, "a number of megabytes")] {
            let problem = limit(text).unwrap_err().0;
            assert!(problem.starts_with("key \"kopia\": ") && problem.contains(piece), "{text}: {problem}");
        }
    }

    #[test]
    fn a_full_maintenance_runs_once_a_day_unless_told_otherwise() {
        assert_eq!(full_maintenance_interval(&BTreeMap::new()).unwrap(), Duration::from_secs(24 * 3600));
        for (name, hours) in [("normalGC", 24), ("fastGC", 12), ("eagerGC", 6)] {
            assert_eq!(interval_named(name).unwrap(), Duration::from_secs(hours * 3600));
        }
    }
}
