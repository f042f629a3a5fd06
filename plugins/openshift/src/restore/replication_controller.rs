//! Replication controllers run images of the internal registry. Those of a deployment config are left to it, unless it
//! is paused.

use velero_plugin::item::{annotation, owned_by, remove_annotation};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use super::TEMPLATE;
use crate::action::PureRestore;
use crate::names::annotations;
use crate::settings::Settings;
use crate::shared::image_reference::rewrite_containers;

/// Renames its images, or keeps it out.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/09-replicationcontroller-restore-plugin",
    resources: &["replicationcontrollers"],
    restore,
};

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let paused = annotation(input.item, annotations::PAUSED_OWNER).is_some();
    if owned_by(input.item_from_backup, "DeploymentConfig") && !paused {
        return Ok(RestoreItemOutcome::skipped());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        remove_annotation(item, annotations::PAUSED_OWNER);
        rewrite_containers(item, TEMPLATE, input.restore);
    }))
}
