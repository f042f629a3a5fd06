//! What copies of volumes through pods need of the server: time, and repositories.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use velero_engine::volumes::{CopyMeans, RepositoryKeeper, RepositoryUnusable};

use crate::runtime::context::Context;
use crate::runtime::error::describe;
use crate::runtime::repositories::Repositories;

/// What the copies of a backup or restore need.
pub(crate) fn copy_means(context: &Context) -> CopyMeans {
    let keeper = Keeper {
        repositories: Repositories::new(context.objects.clone(), context.locations.clone()),
        patience: context.settings.patience.resource_timeout.to_std(),
    };
    CopyMeans { timeout: context.settings.fs_backup_timeout.to_std(), repositories: Some(Arc::new(keeper)) }
}

/// Sees to the repositories of the server.
struct Keeper {
    repositories: Repositories,
    patience: Duration,
}

#[async_trait]
impl RepositoryKeeper for Keeper {
    async fn ensure(&self, volume_namespace: &str, location: &str) -> Result<(), RepositoryUnusable> {
        let ensured = self.repositories.ensure(volume_namespace, location, self.patience).await;
        ensured.map(drop).map_err(|error| RepositoryUnusable(describe(&error)))
    }
}
