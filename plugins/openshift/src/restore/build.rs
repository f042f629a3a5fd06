//! Builds are made again by their build config.

use crate::action::PureRestore;
use velero_plugin::RestoreItemOutcome;

/// Keeps builds out.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/06-build-restore-plugin",
    resources: &["builds"],
    restore: |_, _| Ok(RestoreItemOutcome::skipped()),
};
