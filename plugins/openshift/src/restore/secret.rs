//! Certificates that the old cluster made for a service are made anew by the new one.

use velero_plugin::item::annotation;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::names::annotations;
use crate::settings::Settings;

/// Keeps certificates of services out.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/18-secret-restore-plugin", resources: &["secrets"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let is_made = annotation(input.item, annotations::ORIGINATING_SERVICE).is_some();
    Ok(if is_made { RestoreItemOutcome::skipped() } else { RestoreItemOutcome::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn certificates_of_services_stay_out() {
        for (annotations, expected) in [
            (json!({"service.alpha.openshift.io/originating-service-name": "web"}), Expected::Skip),
            (json!({"service.alpha.openshift.io/originating-service-name": ""}), Expected::Skip),
            (json!({"service.beta.openshift.io/originating-service-name": "web"}), Expected::Same),
            (json!({}), Expected::Same),
            (json!(null), Expected::Same),
        ] {
            let item = json!({"kind": "Secret", "metadata": {"name": "tls", "annotations": annotations}});
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(&annotations.to_string(), &item, outcome, &expected);
        }
    }
}
