//! Cron jobs run images of the internal registry, which has another address here.

use crate::action::PureRestore;

/// Renames its images.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/16-cronjob-restore-plugin",
    resources: &["cronjobs"],
    restore: |input, _| Ok(super::with_images(input, "/spec/jobTemplate/spec/template/spec")),
};
