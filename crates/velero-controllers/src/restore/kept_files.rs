//! The finalizer that keeps a restore until its files are gone.

use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_api::v1::Restore;

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};

/// Whether a restore stays until its files are gone.
pub(crate) fn keeps_files(restore: &Restore) -> bool {
    restore.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == RESTORE_EXTERNAL_RESOURCES)
}

/// Makes a restore stay until its files are gone.
pub(super) fn keep_files(restore: &mut Restore) {
    restore.metadata.finalizers.get_or_insert_default().push(RESTORE_EXTERNAL_RESOURCES.to_owned());
}

/// Lets a restore go whose files are gone; one that is gone already is fine.
pub(crate) async fn let_go_of_files(context: &Context, restore: &Restore) -> Result<()> {
    let mut released = restore.clone();
    if let Some(finalizers) = &mut released.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != RESTORE_EXTERNAL_RESOURCES);
    }
    match context.objects.force(restore, &released).await {
        Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}
