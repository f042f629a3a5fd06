//! Daemon sets run images of the internal registry, which has another address here.

use crate::action::PureRestore;

/// Renames its images.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/11-daemonset-restore-plugin",
    resources: &["daemonsets.apps"],
    restore: |input, _| Ok(super::with_images(input, super::TEMPLATE)),
};
