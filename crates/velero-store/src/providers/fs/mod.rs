//! A directory as an object store: for a laptop, a test, or a volume mounted into the server.

mod builder;
mod room;

use std::sync::Arc;

use crate::bucket::Backend;
use crate::{Result, StoreConfig};

pub use room::{Space, space};

const PROVIDER: &str = "fs";

/// Opens the directory and makes it if it is missing.
pub(crate) async fn open(config: &StoreConfig) -> Result<Backend> {
    let store = builder::build(config).await?;
    Ok(Backend {
        store: Arc::new(store),
        lister: None,
        signer: Err("a directory has no URLs; the file is to be read through the server".to_owned()),
        tags: object_store::TagSet::default(),
    })
}
