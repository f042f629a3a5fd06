//! ConfigMaps that the backup found to be those of a build stay out.

use velero_plugin::item::annotation;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::names::annotations;
use crate::settings::Settings;

/// Keeps ConfigMaps of builds out.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/25-configmap-restore-plugin", resources: &["configmaps"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    let mark = annotation(input.item, annotations::SKIP_BUILD_CONFIG_MAP).unwrap_or_default();
    let is_of_build = ["1", "t", "T", "TRUE", "true", "True"].contains(&mark);
    Ok(if is_of_build { RestoreItemOutcome::skipped() } else { RestoreItemOutcome::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    #[test]
    fn config_maps_of_builds_stay_out() {
        for (mark, expected) in [
            (Some("true"), Expected::Skip),
            (Some("1"), Expected::Skip),
            (Some("T"), Expected::Skip),
            (Some("false"), Expected::Same),
            (Some("yes"), Expected::Same),
            (None, Expected::Same),
        ] {
            let annotations = mark.map(|mark| json!({"oadp.openshift.io/skip-buildconfig-configmap-restore": mark}));
            let item = json!({"kind": "ConfigMap", "metadata": {"name": "web-ca", "annotations": annotations}});
            let outcome = run(&item, &mapping(&json!({})), |input| restore(input, &Settings::default()));
            check(&format!("{mark:?}"), &item, outcome, &expected);
        }
    }
}
