//! The restores of a backup.

use velero_api::v1::Restore;

use crate::runtime::context::Context;
use crate::runtime::error::Result;

/// The restores of a backup that have not ended.
pub(crate) async fn running_restores(context: &Context, backup: &str) -> Result<Vec<Restore>> {
    let mut restores = restores_of(context, backup).await?;
    restores.retain(|restore| !restore.status.phase().is_terminal());
    Ok(restores)
}

/// The restores of a backup.
pub(crate) async fn restores_of(context: &Context, backup: &str) -> Result<Vec<Restore>> {
    let mut found = Vec::new();
    let visitor = |restore: Restore| {
        if restore.spec.backup_name == backup {
            found.push(restore);
        }
    };
    context.objects.visit("", visitor).await?;
    Ok(found)
}
