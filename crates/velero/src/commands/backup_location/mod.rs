//! `velero backup-location …`

mod check;
mod create;
mod delete;
mod get;
mod set;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::SecretKeySelector;
use velero_api::v1::BackupStorageLocation;

pub(super) use check::{check, known_backups};
pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use get::get;
pub(super) use set::set;

use crate::arguments::values::{KeyValues, merged};
use crate::session::Session;

/// The Secret and key a `--credential` flag names.
pub(super) fn credential(flags: &[KeyValues]) -> Result<Option<SecretKeySelector>> {
    let pairs: BTreeMap<String, String> = merged(flags);
    ensure!(pairs.len() <= 1, "--credential can only contain 1 key/value pair");
    let selector = |(name, key)| SecretKeySelector { name, key, optional: None };
    Ok(pairs.into_iter().next().map(selector))
}

/// The locations that are marked as default.
async fn default_locations(session: &Session) -> Result<Vec<BackupStorageLocation>> {
    let locations = session.list::<BackupStorageLocation>("").await?.items;
    Ok(locations.into_iter().filter(|location| location.spec.default).collect())
}
