//! The finalizer that keeps a restore until its files are gone.

use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_api::v1::Restore;

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};

/// Whether a restore stays until its files are gone.
pub(crate) fn claims_files(restore: &Restore) -> bool {
    restore.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == RESTORE_EXTERNAL_RESOURCES)
}

/// Makes a restore stay until its files are gone.
pub(super) fn claim_files(restore: &mut Restore) {
    restore.metadata.finalizers.get_or_insert_default().push(RESTORE_EXTERNAL_RESOURCES.to_owned());
}

/// Takes back the claim on a restore's files; one that is gone already is fine.
pub(crate) async fn disclaim(context: &Context, restore: &Restore) -> Result<()> {
    let mut released = restore.clone();
    if let Some(finalizers) = &mut released.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != RESTORE_EXTERNAL_RESOURCES);
    }
    match context.objects.force(restore, &released).await {
        Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}
