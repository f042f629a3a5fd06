//! Image tags are another view of image streams, and come back with these.

use crate::action::PureRestore;
use velero_plugin::RestoreItemOutcome;

/// Keeps image tags out.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/23-imagetag-restore-plugin",
    resources: &["imagetags"],
    restore: |_, _| Ok(RestoreItemOutcome::skipped()),
};
