//! A directory as an object store: for a laptop, a test, or a volume mounted into the server.

mod builder;
mod room;

use std::sync::Arc;

use crate::bucket::{Backend, NoSigner};
use crate::{Result, StoreConfig};

pub use room::{Space, space};

const PROVIDER: &str = "fs";

/// Opens the directory and makes it if it is missing.
pub(crate) async fn open(config: &StoreConfig) -> Result<Backend> {
    let store = builder::build(config).await?;
    Ok(Backend {
        store: Arc::new(store),
        lister: None,
        signer: Err(NoSigner::Directory),
        tags: object_store::TagSet::default(),
    })
}
