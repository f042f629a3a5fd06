//! Refusing a bucket that another cluster uses, before anything is changed.
//!
//! Whether that cluster still lives nobody can see: it counts as long as it was heard of lately. Whoever takes its place, or means
//! to share the bucket, says so by a flag.

use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use velero_api::v1::BackupStorageLocation;
use velero_store::StoreConfig;
use velero_store::check::{Writer, neighbour, writers};

use crate::session::Session;

/// How long the bucket may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Refuses a bucket and prefix to which another cluster writes, or did not long ago. One that this cluster writes to already is not
/// refused, and neither is one that cannot be seen from here.
pub(super) async fn refuse(session: &Session, config: &StoreConfig, prefix: &str) -> Result<()> {
    let Some(cluster) = cluster_uid(session).await else { return Ok(()) };
    if is_written_to(session, config, prefix).await {
        return Ok(());
    }
    let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, writers(config, prefix)).await else { return Ok(()) };
    let now = Timestamp::now();
    match neighbour(&found, &cluster, now) {
        Some(other) => bail!("{}; nothing was changed", words(other, &config.bucket, prefix, now)),
        None => Ok(()),
    }
}

/// What tells this cluster from others; nothing where it may not be read.
async fn cluster_uid(session: &Session) -> Option<String> {
    let namespaces: Api<Namespace> = Api::all(session.cluster.client().clone());
    namespaces.get_metadata_opt("kube-system").await.ok()??.metadata.uid
}

/// Whether a location of this installation writes there.
async fn is_written_to(session: &Session, config: &StoreConfig, prefix: &str) -> bool {
    // Without their definition there are none.
    let Ok(listed) = session.list::<BackupStorageLocation>("").await else { return false };
    listed.items.iter().any(|location| writes_to(location, config, prefix))
}

fn writes_to(location: &BackupStorageLocation, config: &StoreConfig, prefix: &str) -> bool {
    fn short(provider: &str) -> &str {
        provider.strip_prefix("velero.io/").unwrap_or(provider)
    }
    let storage = &location.spec.object_storage;
    !location.is_read_only()
        && short(&location.spec.provider) == short(&config.provider)
        && storage.bucket.trim_matches('/') == config.bucket.trim_matches('/')
        && storage.prefix.trim_matches('/') == prefix.trim_matches('/')
}

fn words(other: &Writer, bucket: &str, prefix: &str, now: Timestamp) -> String {
    let Writer { cluster, namespace, backup, at } = other;
    let ago = ago(now.as_second().saturating_sub(at.as_second()));
    format!(
        "bucket {bucket:?} with prefix {prefix:?} is used by another cluster: the server in namespace {namespace:?} of the cluster \
         with UID {cluster} wrote backup {backup:?} {ago}. Clusters that use one bucket and prefix see each other's backups, and \
         remove them when they expire. Use another --prefix, and read these backups through velero backup-location create NAME \
         --access-mode ReadOnly; where that cluster is gone and this one takes its place, or both are meant to use the bucket, add \
         --share-bucket"
    )
}

fn ago(seconds: i64) -> String {
    match seconds.max(0) {
        0..=119 => "a moment ago".to_owned(),
        seconds @ 120..=7199 => format!("{} minutes ago", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} hours ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_another_cluster_uses_is_told_with_whose_it_is_and_the_ways_out() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let [cluster, namespace, backup] = ["1f2e", "velero", "nightly-1"].map(str::to_owned);
        let other = Writer { cluster, namespace, backup, at };
        for (now, ago) in [
            ("2025-12-31T23:00:00Z", "a moment ago"),
            ("2026-01-01T00:01:00Z", "a moment ago"),
            ("2026-01-01T00:05:00Z", "5 minutes ago"),
            ("2026-01-01T03:00:00Z", "3 hours ago"),
            ("2026-01-09T00:00:00Z", "8 days ago"),
        ] {
            let told = words(&other, "b", "p", now.parse().unwrap());
            let backup = format!("of the cluster with UID 1f2e wrote backup \"nightly-1\" {ago}.");
            let place = "bucket \"b\" with prefix \"p\"";
            for part in [place, backup.as_str(), "another --prefix", "ReadOnly", "add --share-bucket"] {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
    }

    #[test]
    fn a_cluster_that_writes_to_a_bucket_already_goes_on() {
        let location = |spec: Value| -> BackupStorageLocation {
            let metadata = json!({"name": "default", "namespace": "velero"});
            let location = json!({
                "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": metadata, "spec": spec,
            });
            serde_json::from_value(location).unwrap()
        };
        let config = StoreConfig::new("aws", "b");
        for (provider, bucket, prefix, mode, expected) in [
            ("velero.io/aws", "b", "/p/", "ReadWrite", true),
            ("aws", "b", "p", "ReadOnly", false),
            ("aws", "b", "q", "ReadWrite", false),
            ("aws", "c", "p", "ReadWrite", false),
            ("gcp", "b", "p", "ReadWrite", false),
        ] {
            let storage = json!({"bucket": bucket, "prefix": prefix});
            let found = location(json!({"provider": provider, "objectStorage": storage, "accessMode": mode}));
            assert_eq!(writes_to(&found, &config, "p"), expected, "{provider} {bucket} {prefix} {mode}");
        }
    }
}
