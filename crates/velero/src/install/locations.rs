//! Where backups and snapshots go, and the credentials for it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use velero_api::v1::SERVER_STATUS_NAME;
use velero_store::{Credentials, StoreConfig, is_built_in};

use super::{DEFAULT_LOCATION, Installation, Resource, metadata};
use crate::arguments::values::merged;
use crate::arguments::{InstallArguments, StorageArguments};

/// The Secret with the provider's credentials.
pub(crate) const SECRET: &str = "cloud-credentials";
/// The key of the credentials in that Secret.
pub(crate) const SECRET_KEY: &str = "cloud";
/// The claim for backups that go to a volume.
pub(crate) const CLAIM: &str = "velero-backups";
/// Where the volume of that claim is mounted in the server's pod.
pub(super) const CLAIM_FOLDER: &str = "/backups";
/// Where backups lie on it: not at its root, where file systems keep folders of their own.
const CLAIM_PATH: &str = "/backups/velero";
/// What the location on a volume calls its bucket.
const CLAIM_BUCKET: &str = "backups";
/// The provider of Amazon's buckets.
const AMAZON: &str = "aws";
/// The provider of locations in a directory.
const DIRECTORY: &str = "fs";

const VELERO: &str = "velero.io/v1";

/// Credentials, the claim, the locations and the request that shows the status of the server.
pub(super) fn resources(installation: &Installation<'_>) -> Vec<Resource> {
    let mut resources = Vec::new();
    if let Some(content) = &installation.files.secret {
        resources.push(Resource::applied(secret(installation.namespace, content)));
    }
    if uses_claim(installation) {
        resources.push(Resource::kept(claim(installation)));
    }
    if makes_location(installation) {
        let named = is_location_named(&installation.arguments.storage);
        resources.push(Resource::applied_if(named, backup_location(installation)));
    }
    if makes_snapshot_location(installation.arguments) {
        resources.push(Resource::applied(snapshot_location(installation)));
    }
    let metadata = metadata(Some(installation.namespace), SERVER_STATUS_NAME);
    let request = json!({ "apiVersion": VELERO, "kind": "ServerStatusRequest", "metadata": metadata, "spec": {} });
    resources.push(Resource::kept(request));
    resources
}

/// What opens the bucket of the location as the server will, where flags name one that needs no plugin and give credentials.
pub(crate) fn bucket(installation: &Installation<'_>) -> Option<StoreConfig> {
    let storage = &installation.arguments.storage;
    let is_one = is_built_in(&storage.provider) && !is_on_claim(storage) && makes_location(installation);
    let keys = installation.files.secret.as_ref().filter(|_| is_one && !installation.arguments.run.crds_only)?;
    let mut config = StoreConfig::new(&storage.provider, &storage.bucket);
    config.config = merged(&storage.backup_location_config);
    config.credentials = Some(Credentials::Content(String::from_utf8_lossy(keys).into_owned()));
    config.ca_certificate.clone_from(&installation.files.certificate);
    Some(config)
}

/// Whether the server's pod gets the credentials.
pub(super) fn has_secret(installation: &Installation<'_>) -> bool {
    let kept = installation.existing.secret && !installation.arguments.storage.no_secret;
    installation.files.secret.is_some() || kept
}

/// Whether the server's pod gets the volume for backups.
pub(super) fn uses_claim(installation: &Installation<'_>) -> bool {
    let is_new = makes_location(installation) && is_on_claim(&installation.arguments.storage);
    is_new || installation.existing.claim
}

/// Whether backups go to a claim: they do unless flags name another place.
pub(super) fn is_on_claim(storage: &StorageArguments) -> bool {
    let provider = storage.provider.strip_prefix("velero.io/").unwrap_or(&storage.provider);
    !storage.no_default_backup_location && (provider == DIRECTORY || !is_location_named(storage))
}

/// The directory of a location on the claim, and whether it lies on the volume.
pub(super) fn directory(storage: &StorageArguments) -> (String, bool) {
    let config = merged(&storage.backup_location_config);
    let path = config.get("path").map_or(CLAIM_PATH, String::as_str);
    let is_inside = path == CLAIM_FOLDER || path.starts_with(&format!("{CLAIM_FOLDER}/"));
    (path.to_owned(), is_inside)
}

fn is_location_named(storage: &StorageArguments) -> bool {
    !storage.provider.is_empty() || !storage.bucket.is_empty()
}

/// A location that is there already is only looked at again when flags name it.
fn makes_location(installation: &Installation<'_>) -> bool {
    let storage = &installation.arguments.storage;
    let is_wanted = is_location_named(storage) || !installation.existing.location;
    !storage.no_default_backup_location && is_wanted
}

/// Snapshots need a plugin, or Amazon's own EC2, whose snapshotter is built in; a directory has none.
fn makes_snapshot_location(arguments: &InstallArguments) -> bool {
    let storage = &arguments.storage;
    let has_provider = !storage.provider.is_empty() && (storage.no_default_backup_location || !is_on_claim(storage));
    let is_asked_for =
        has_plugins(arguments) || !storage.snapshot_location_config.is_empty() || amazon_region(storage).is_some();
    has_provider && storage.use_volume_snapshots.0.unwrap_or(is_asked_for)
}

/// The region of a bucket of Amazon's; other stores that speak its protocol have an address.
fn amazon_region(storage: &StorageArguments) -> Option<String> {
    let provider = storage.provider.strip_prefix("velero.io/").unwrap_or(&storage.provider);
    let mut config = merged(&storage.backup_location_config);
    let region = config.remove("region").filter(|region| !region.is_empty());
    region.filter(|_| provider == AMAZON && !config.contains_key("s3Url"))
}

/// Whether images of plugins are named.
pub(super) fn has_plugins(arguments: &InstallArguments) -> bool {
    arguments.pod.plugins.iter().flat_map(|list| &list.0).any(|image| !image.is_empty())
}

fn secret(namespace: &str, content: &[u8]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(Some(namespace), SECRET),
        "type": "Opaque",
        "data": { SECRET_KEY: ByteString(content.to_vec()) },
    })
}

fn claim(installation: &Installation<'_>) -> Value {
    let storage = &installation.arguments.storage;
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": storage.backup_volume_size } },
    });
    if !storage.backup_volume_storage_class.is_empty() {
        spec["storageClassName"] = json!(storage.backup_volume_storage_class);
    }
    let metadata = metadata(Some(installation.namespace), CLAIM);
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec })
}

fn backup_location(installation: &Installation<'_>) -> Value {
    let storage = &installation.arguments.storage;
    let mut config = merged(&storage.backup_location_config);
    let mut object_storage = json!({ "bucket": storage.bucket });
    let mut provider = storage.provider.as_str();
    if is_on_claim(storage) {
        config.entry("path".to_owned()).or_insert_with(|| CLAIM_PATH.to_owned());
        provider = if provider.is_empty() { DIRECTORY } else { provider };
        if storage.bucket.is_empty() {
            object_storage["bucket"] = json!(CLAIM_BUCKET);
        }
    }
    if !storage.prefix.is_empty() {
        object_storage["prefix"] = json!(storage.prefix);
    }
    if let Some(certificate) = &installation.files.certificate {
        object_storage["caCert"] = json!(ByteString(certificate.clone()));
    }
    let spec = json!({ "provider": provider, "default": true, "objectStorage": object_storage });
    location("BackupStorageLocation", installation.namespace, spec, &config)
}

fn snapshot_location(installation: &Installation<'_>) -> Value {
    let storage = &installation.arguments.storage;
    let mut config = merged(&storage.snapshot_location_config);
    // The snapshotter needs a region, and volumes are where the bucket is unless flags say otherwise.
    if let Some(region) = amazon_region(storage) {
        config.entry("region".to_owned()).or_insert(region);
    }
    location("VolumeSnapshotLocation", installation.namespace, json!({ "provider": storage.provider }), &config)
}

fn location(kind: &str, namespace: &str, mut spec: Value, config: &BTreeMap<String, String>) -> Value {
    if !config.is_empty() {
        spec["config"] = json!(config);
    }
    json!({ "apiVersion": VELERO, "kind": kind, "metadata": metadata(Some(namespace), DEFAULT_LOCATION), "spec": spec })
}
