//! Google Cloud Storage, with the config keys of Velero's GCP plugin.

mod builder;
mod credential;
mod encryption;

use std::sync::Arc;

use crate::bucket::Backend;
use crate::{Result, StoreConfig};

const PROVIDER: &str = "gcp";

/// Opens a bucket.
pub(crate) async fn open(config: &StoreConfig) -> Result<Backend> {
    let store = Arc::new(builder::build(config).await?);
    let tags = object_store::TagSet::default();
    Ok(Backend { store: store.clone(), lister: Some(store.clone()), signer: Ok(store), tags })
}
