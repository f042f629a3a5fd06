//! Azure Blob Storage, with the config keys of Velero's Azure plugin.

mod builder;
mod credential;
mod management;

use std::sync::Arc;

use crate::bucket::Backend;
use crate::location::invalid;
use crate::{Result, StoreConfig};

const PROVIDER: &str = "azure";

/// Opens a container.
pub(crate) async fn open(config: &StoreConfig) -> Result<Backend> {
    let store = Arc::new(builder::build(config).await?);
    let tags = object_store::TagSet::default();
    Ok(Backend { store: store.clone(), lister: Some(store.clone()), signer: Ok(store), tags })
}

/// The size of an upload part, if the location gives one.
pub(crate) fn block_size(config: &StoreConfig) -> Result<Option<usize>> {
    const FIELD: &str = "blockSizeInBytes";
    // The largest block the service takes is larger, but a part is held in memory.
    const LARGEST: usize = 100 << 20;
    let Some(text) = config.get(FIELD) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(size @ 1..=LARGEST) => Ok(Some(size)),
        _ => Err(invalid(PROVIDER, FIELD, format!("{text:?} is not a number from 1 to {LARGEST}"))),
    }
}
