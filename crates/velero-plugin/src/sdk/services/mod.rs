//! The services of the protocol, answered by the plugins of this process.

mod actions;
mod object_stores;
mod process;
mod restore_actions;
mod volume_snapshotters;

use std::sync::Arc;

use serde::de::DeserializeOwned;

pub(crate) use actions::Actions;
pub(crate) use object_stores::ObjectStores;
pub(crate) use process::Process;
pub(crate) use volume_snapshotters::VolumeSnapshotters;

use super::plugins::Named;
use crate::{Error, PluginKind, Result};

fn find<P: ?Sized>(plugins: &Named<P>, kind: PluginKind, name: &str) -> Result<Arc<P>> {
    let missing = || Error::Failed(format!("{kind} plugin: {name} was not found or has an invalid name format"));
    plugins.get(name).cloned().ok_or_else(missing)
}

/// Reads an object of a request.
fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Failed(format!("the {what} of the request: {error}")))
}

/// Writes an object for an answer.
fn encode(what: &str, value: &serde_json::Value) -> Result<bytes::Bytes> {
    crate::wire::json_bytes(value).map_err(|error| Error::Failed(format!("the {what} of the answer: {error}")))
}
