//! Who keeps a workload as it is: an operator that owns it, Helm, or what follows a repository.

use serde_json::Value;

use super::exchange::is_ours;
use super::{Installed, Line, Release, Verdict, name, text};

/// Where Helm writes the release that an object is of.
const OF_HELM: &str = "/metadata/annotations/meta.helm.sh~1release-name";
/// Where Argo CD writes the application, before a colon.
const OF_ARGO_CD: &str = "/metadata/annotations/argocd.argoproj.io~1tracking-id";
/// Where Argo CD writes it that is told to keep to a label of its own.
const OF_ARGO_CD_BY_LABEL: &str = "/metadata/labels/argocd.argoproj.io~1instance";
/// Where charts write their name and version.
const OF_CHART: &str = "/metadata/labels/helm.sh~1chart";
/// Where Flux writes its Kustomization.
const OF_FLUX: &str = "/metadata/labels/kustomize.toolkit.fluxcd.io~1name";

/// The operator that has made a workload and keeps it as it is.
pub(super) fn owner(object: &str, workload: &Value) -> Option<Line> {
    let mut owners = workload["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    let detail = format!(
        "{}/{} has made it and would take the exchange back: have it let go of Velero first",
        text(owner, "/kind"),
        text(owner, "/name")
    );
    Some(Line::new(object, Verdict::Refused, detail))
}

/// The workloads that somebody else would write again as they were, and who that is. A release of Velero's own chart is judged
/// with its values.
pub(crate) fn keepers(installed: &Installed) -> Vec<Line> {
    let servers = installed.servers.iter().map(|workload| ("Deployment", workload));
    let agents = installed.agents.iter().map(|workload| ("DaemonSet", workload));
    let foreign = servers.chain(agents).filter(|(_, workload)| !is_ours(workload));
    let releases = installed.knows("Secret").then_some(installed.releases.as_slice());
    let kept = foreign.filter_map(|(kind, workload)| {
        let detail = keeper(workload, releases)?;
        Some(Line::new(format!("{kind}/{}", name(workload)), Verdict::Differs, detail))
    });
    kept.collect()
}

/// Without releases nobody knows whether a release is of Velero's own chart.
fn keeper(workload: &Value, releases: Option<&[Release]>) -> Option<String> {
    const REMEDY: &str =
        "put our chart, or our base for kustomize, in the place of Velero's there (docs/from-velero.md)";
    let (argo_cd, flux, helm) = (text(workload, OF_ARGO_CD), text(workload, OF_FLUX), text(workload, OF_HELM));
    let argo_cd = if argo_cd.is_empty() { text(workload, OF_ARGO_CD_BY_LABEL) } else { argo_cd };
    if let Some(application) = argo_cd.split(':').next().filter(|application| !application.is_empty()) {
        return Some(format!(
            "application {application:?} of Argo CD keeps it as its repository says, and would take the exchange back; {REMEDY}"
        ));
    }
    if !flux.is_empty() {
        return Some(format!(
            "Kustomization {flux:?} of Flux keeps it as its repository says, and would take the exchange back; {REMEDY}"
        ));
    }
    // Helm writes the release on all that it makes.
    if helm.is_empty() && text(workload, OF_CHART).starts_with("velero-") {
        return Some(format!(
            "it was made from Velero's chart and not by Helm itself, as Argo CD does that keeps to labels: whoever made it would take \
             the exchange back; {REMEDY}"
        ));
    }
    let is_of_another_chart = !helm.is_empty() && !releases?.iter().any(|release| release.name() == helm);
    is_of_another_chart.then(|| {
        format!(
            "it is of release {helm:?} of Helm, whose chart has Velero's as a part, and which would take the exchange back at \
             its next upgrade; put our chart in the place of Velero's there (docs/from-velero.md)"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(metadata: &Value) -> Value {
        json!({"metadata": metadata, "spec": {"template": {"spec": {"containers": [{"name": "velero", "image": "v"}]}}}})
    }

    #[test]
    fn whoever_would_take_an_exchange_back_is_named_with_the_remedy() {
        let annotated = |key: &str, value: &str| json!({"name": "velero", "annotations": {key: value}});
        let flux = json!({"name": "velero", "labels": {"kustomize.toolkit.fluxcd.io/name": "backup"}});
        for (metadata, words) in [
            (annotated("meta.helm.sh/release-name", "platform"), Some("release \"platform\" of Helm")),
            (annotated("meta.helm.sh/release-name", "velero"), None),
            (
                annotated("argocd.argoproj.io/tracking-id", "backup:apps/Deployment:velero/velero"),
                Some("application \"backup\" of Argo CD"),
            ),
            (flux, Some("Kustomization \"backup\" of Flux")),
            (
                json!({"name": "velero", "labels": {"argocd.argoproj.io/instance": "backup"}}),
                Some("application \"backup\" of Argo CD"),
            ),
            (
                json!({"name": "velero", "labels": {"helm.sh/chart": "velero-12.1.0"}}),
                Some("made from Velero's chart and not by Helm itself"),
            ),
            (
                json!({
                    "name": "velero", "labels": {"helm.sh/chart": "velero-12.1.0"},
                    "annotations": {"meta.helm.sh/release-name": "velero"},
                }),
                None,
            ),
            (json!({"name": "velero", "labels": {"app.kubernetes.io/instance": "velero"}}), None),
        ] {
            let servers = vec![server(&metadata)];
            let releases = vec![Release::of_velero_called("velero")];
            let lines = keepers(&Installed { servers, releases, ..Installed::default() });
            assert_eq!(lines.len(), usize::from(words.is_some()), "{metadata}: {lines:?}");
            if let (Some(line), Some(words)) = (lines.first(), words) {
                assert!(line.object == "Deployment/velero" && line.detail.contains(words), "{line:?}");
                assert!(line.detail.contains("docs/from-velero.md"), "{line:?}");
            }
        }
    }

    #[test]
    fn what_is_ours_already_is_left_to_whoever_keeps_it() {
        let metadata = json!({
            "name": "velero", "labels": {"helm.sh/chart": concat!("velero-", env!("CARGO_PKG_VERSION"))},
            "annotations": {"meta.helm.sh/release-name": "platform"},
        });
        assert!(keepers(&Installed { servers: vec![server(&metadata)], ..Installed::default() }).is_empty());
    }
}
