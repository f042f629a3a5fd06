//! What users without administrator rights asked OADP for is no part of what they asked to have back.

use velero_plugin::item::text;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;

/// Keeps requests to OADP out.
pub(super) const STEP: PureRestore = PureRestore {
    name: "openshift.io/26-nonadmin-restore-plugin",
    resources: &[
        "nonadminbackups.oadp.openshift.io",
        "nonadminrestores.oadp.openshift.io",
        "nonadminbackupstoragelocations.oadp.openshift.io",
    ],
    restore,
};

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let is_of_oadp = text(input.item, "/apiVersion").starts_with("oadp.openshift.io/");
    let is_request =
        matches!(text(input.item, "/kind"), "NonAdminBackup" | "NonAdminRestore" | "NonAdminBackupStorageLocation");
    Ok(if is_of_oadp && is_request { RestoreItemOutcome::skipped() } else { RestoreItemOutcome::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn requests_to_oadp_stay_out() {
        for (api_version, kind, expected) in [
            ("oadp.openshift.io/v1alpha1", "NonAdminBackup", Expected::Skip),
            ("oadp.openshift.io/v1alpha1", "NonAdminRestore", Expected::Skip),
            ("oadp.openshift.io/v1alpha1", "NonAdminBackupStorageLocation", Expected::Skip),
            ("oadp.openshift.io/v1alpha1", "DataProtectionApplication", Expected::Same),
            ("example.com/v1", "NonAdminBackup", Expected::Same),
        ] {
            let item = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(&format!("{api_version} {kind}"), &item, outcome, &expected);
        }
    }
}
