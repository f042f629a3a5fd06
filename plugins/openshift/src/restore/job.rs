//! Jobs run images of the internal registry. Those of a cron job are left to it.

use velero_plugin::item::owned_by;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use super::{TEMPLATE, with_images};
use crate::action::PureRestore;
use crate::settings::Settings;

/// Renames its images, or keeps it out.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/10-job-restore-plugin", resources: &["jobs"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    Ok(if owned_by(input.item_from_backup, "CronJob") {
        RestoreItemOutcome::skipped()
    } else {
        with_images(input, TEMPLATE)
    })
}
