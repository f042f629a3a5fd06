//! Replica sets run images of the internal registry. Those of a deployment come back too, for they are its history.

use velero_plugin::item::owned_by;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use super::{TEMPLATE, with_images};
use crate::action::PureRestore;
use crate::compat::Compat;
use crate::settings::Settings;

/// Renames its images.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/12-replicaset-restore-plugin", resources: &["replicasets.apps"], restore };

fn restore(input: RestoreItemInput<'_>, settings: &Settings) -> Result<RestoreItemOutcome> {
    if settings.compat(Compat::SkipOwnedReplicaSets) && owned_by(input.item_from_backup, "Deployment") {
        return Ok(RestoreItemOutcome::skipped());
    }
    Ok(with_images(input, TEMPLATE))
}
