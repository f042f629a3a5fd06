//! What is looked at before the first write, so that nothing is left half installed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use velero_api::metadata::{label, name, uid};
use velero_api::v1::BackupStorageLocation;
use velero_api::{GROUP, labels};

use super::{api_of, kind_of};
use crate::arguments::InstallArguments;
use crate::install::{
    CLAIM, DEFAULT_LOCATION, Existing, INSTALLED_BY, NODE_AGENTS, POD_SECURITY, PRIVILEGED, RESTRICTED, Resource,
    SECRET, SERVER,
};
use crate::migration::{is_of_the_original, refused_version};
use crate::session::{Session, api_error};

/// The namespace in which objects are tried out while theirs does not exist.
const ELSEWHERE: &str = "default";

/// What is in the cluster already.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Whether the namespace exists.
    pub(super) namespace: bool,
    /// What its label allows pods to do, where it has one.
    pub(super) pod_security: Option<String>,
    /// What goes on to be used.
    pub(super) existing: Existing,
    /// The Deployments of another Velero: their names and images.
    pub(super) foreign: Vec<(String, String)>,
    /// The Deployment of a server of ours that is called otherwise than an installation calls it.
    pub(super) renamed: Option<String>,
    /// What an earlier installation made and this one does without.
    pub(super) superfluous: Vec<Resource>,
    /// Whether there are node agents that flags do not speak of.
    pub(super) unnamed_agents: bool,
}

/// Asks whether that may be done with everything, and names all that may not.
pub(super) async fn check_rights(session: &Session, resources: &[Resource], verbs: &[&str]) -> Result<()> {
    let mut wanted = BTreeSet::new();
    for resource in resources {
        let kind = kind_of(resource)?;
        for verb in verbs {
            let namespace = resource.namespace().map(str::to_owned);
            wanted.insert((kind.group.clone(), kind.plural.clone(), namespace, *verb));
        }
    }
    let answers = wanted.iter().map(async |(group, plural, namespace, verb)| {
        let name = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
        let attributes = ResourceAttributes {
            group: Some(group.clone()),
            resource: Some(plural.clone()),
            namespace: namespace.clone(),
            verb: Some((*verb).to_owned()),
            ..ResourceAttributes::default()
        };
        Ok::<_, anyhow::Error>((!is_allowed(session, attributes).await?).then(|| format!("{verb} {name}")))
    });
    let denied: Vec<String> = try_join_all(answers).await?.into_iter().flatten().collect();
    ensure!(
        denied.is_empty(),
        "installing needs the rights of a cluster administrator, and you may not {}; nothing was changed",
        denied.join(", ")
    );
    Ok(())
}

async fn is_allowed(session: &Session, attributes: ResourceAttributes) -> Result<bool> {
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let api: Api<SelfSubjectAccessReview> = Api::all(session.cluster.client().clone());
    let answer = api.create(&PostParams::default(), &review).await.map_err(api_error)?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Looks for what an earlier installation left.
pub(super) async fn look(session: &Session) -> Result<Found> {
    let client = session.cluster.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = session.namespace();
    let Some(namespace) = namespaces.get_metadata_opt(name).await.map_err(api_error)? else {
        return Ok(Found::default());
    };
    ensure!(
        namespace.metadata.deletion_timestamp.is_none(),
        "namespace {name} is being deleted; install again when it is gone"
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), name);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), name);
    let labels = namespace.metadata.labels.unwrap_or_default();
    let pod_security = labels.get(POD_SECURITY).cloned();
    let existing = Existing {
        namespace: labels.get(labels::COMPONENT).is_some_and(|value| value == labels::COMPONENT_VELERO),
        open_namespace: pod_security.as_deref() != Some(RESTRICTED),
        location: has_default_location(session).await?,
        claim: claims.get_metadata_opt(CLAIM).await.map_err(api_error)?.is_some(),
        secret: secrets.get_metadata_opt(SECRET).await.map_err(api_error)?.is_some(),
    };
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), name);
    let deployments = deployments.list(&ListParams::default()).await.map_err(api_error)?.items;
    let foreign = deployments.iter().filter_map(foreign_server).collect();
    let renamed = deployments.iter().find_map(renamed_server);
    Ok(Found { namespace: true, pod_security, existing, foreign, renamed, ..Found::default() })
}

/// Whether there are node agents though flags do not speak of any. They stay: what they have begun would be lost with them.
pub(super) async fn has_unnamed_agents(session: &Session, arguments: &InstallArguments) -> Result<bool> {
    if arguments.node_agent.use_node_agent {
        return Ok(false);
    }
    let api: Api<DaemonSet> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    match api.get_metadata_opt(NODE_AGENTS).await {
        // Who may not look is not told.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        found => Ok(found.map_err(api_error)?.is_some()),
    }
}

/// What an earlier installation made of what this one leaves out, with its UID. What others made under those names is theirs.
pub(super) async fn superfluous(session: &Session, left_out: Vec<Resource>) -> Result<Vec<Resource>> {
    let mut superfluous = Vec::new();
    for mut resource in left_out {
        let found = match api_of(session, &resource, session.namespace())?.get_metadata_opt(resource.name()).await {
            // Who may not look has not made it.
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            found => found.map_err(api_error)?,
        };
        if let Some(found) = found.filter(|found| label(found, labels::COMPONENT) == labels::COMPONENT_VELERO) {
            resource.object["metadata"]["uid"] = uid(&found).into();
            superfluous.push(resource);
        }
    }
    Ok(superfluous)
}

async fn has_default_location(session: &Session) -> Result<bool> {
    match session.api::<BackupStorageLocation>().get_metadata_opt(DEFAULT_LOCATION).await {
        Ok(found) => Ok(found.is_some()),
        // Without its definition there is no location.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(api_error(error)),
    }
}

/// The name and image of a server that another program has installed, or that is the original's under our mark.
fn foreign_server(deployment: &Deployment) -> Option<(String, String)> {
    let image = server_image(deployment)?;
    (!is_ours(deployment, image)).then(|| (name(deployment).to_owned(), image.to_owned()))
}

/// The name of a server of ours that is called otherwise than an installation calls it.
fn renamed_server(deployment: &Deployment) -> Option<String> {
    let image = server_image(deployment)?;
    (is_ours(deployment, image) && name(deployment) != SERVER).then(|| name(deployment).to_owned())
}

/// The image of the server that a Deployment has.
fn server_image(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let server = pod.containers.iter().find(|container| container.name == SERVER)?;
    Some(server.image.as_deref().unwrap_or_default())
}

/// Whether a server has our mark. One of the original's may have it that came back by another way than it went.
fn is_ours(deployment: &Deployment, image: &str) -> bool {
    let annotations = deployment.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(INSTALLED_BY)) && !is_of_the_original(image)
}

/// Refuses a second server beside one of ours that is called otherwise: they would share a Lease, and one would do nothing.
pub(super) fn check_renamed(namespace: &str, found: &Found) -> Result<()> {
    let Some(name) = &found.renamed else { return Ok(()) };
    bail!(
        "Deployment {namespace}/{name} is a server of this program already, and a second one, {SERVER}, would only wait until it \
         ends. For another version give it another image: kubectl -n {namespace} set image deployment/{name} {SERVER}=IMAGE; to have \
         it as this command makes it delete it first: kubectl -n {namespace} delete deployment {name}; or install into another \
         namespace with --namespace; nothing was changed"
    )
}

/// Refuses to replace another Velero unasked, and one whose objects are not known here in any case: with our
/// definitions they would lose what those do not have.
pub(super) fn check_foreign(namespace: &str, found: &Found, force: bool) -> Result<()> {
    for (name, image) in &found.foreign {
        ensure!(
            force,
            "Deployment {namespace}/{name} runs {image}, which is not of this program; to replace it use --force (custom \
             resources stay), or install beside it with --namespace; nothing was changed"
        );
        if let Some(refusal) = refused_version(image) {
            bail!("Deployment {namespace}/{name}: {refusal}; nothing was changed");
        }
    }
    Ok(())
}

/// Refuses node agents where the namespace would refuse their pods. One that an installation made is changed.
pub(super) fn check_pod_security(namespace: &str, found: &Found, arguments: &InstallArguments) -> Result<()> {
    match found.pod_security.as_deref() {
        Some(level) if arguments.node_agent.use_node_agent && level != PRIVILEGED && !found.existing.namespace => {
            bail!(
                "namespace {namespace} has the label {POD_SECURITY}={level}, and node agents need {PRIVILEGED}: they read the \
             volumes of all pods of their node; change it with: kubectl label --overwrite namespace {namespace} \
             {POD_SECURITY}={PRIVILEGED}; nothing was changed"
            )
        }
        _ => Ok(()),
    }
}

/// Checks that the ConfigMaps that flags name exist and can be read by the server.
pub(super) async fn check_config_maps(session: &Session, arguments: &InstallArguments) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let of_server = &arguments.server.flags.settings.repositories;
    let named = [
        ("node-agent-configmap", arguments.node_agent.node_agent_configmap.as_str()),
        ("repo-maintenance-job-configmap", of_server.repo_maintenance_job_configmap.as_str()),
        ("backup-repository-configmap", of_server.backup_repository_configmap.as_str()),
    ];
    for (flag, name) in named.into_iter().filter(|(_, name)| !name.is_empty()) {
        let found = api.get_opt(name).await.map_err(api_error)?;
        let found = found.with_context(|| {
            format!("--{flag} {name}: there is no such ConfigMap in namespace {}", session.namespace())
        })?;
        for (key, text) in found.data.unwrap_or_default() {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text)
                .with_context(|| format!("--{flag} {name}: its key {key} is not a JSON object"))?;
        }
    }
    Ok(())
}

/// Lets the API server judge the objects without keeping them. Custom resources are left out: their definitions may
/// not be there yet. So is the binding, whose role may not be there yet.
pub(super) async fn try_out(session: &Session, resources: &[Resource], found: &Found) -> Result<()> {
    let namespace = if found.namespace { session.namespace() } else { ELSEWHERE };
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let tried = resources.iter().filter(|resource| resource.kind() != "ClusterRoleBinding");
    let tried = tried
        .filter(|resource| !resource.object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP)));
    for resource in tried {
        let mut object = resource.object.clone();
        if resource.namespace().is_some() {
            object["metadata"]["namespace"] = namespace.into();
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        match api_of(session, resource, namespace)?.create(&parameters, &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            // Another namespace may have rules of its own.
            Err(kube::Error::Api(status))
                if !found.namespace && resource.namespace().is_some() && status.code == 403 => {}
            Err(error) => {
                let (kind, name) = (resource.kind(), resource.name());
                return Err(api_error(error).context(format!("{kind}/{name} is refused; nothing was changed")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use serde_json::json;

    use super::*;
    use crate::arguments::{Cli, Command, with_go_flags};

    fn parsed(flags: &[&str]) -> InstallArguments {
        let matches = with_go_flags(Cli::command()).get_matches_from(["velero", "install"].iter().chain(flags));
        let Command::Install(arguments) = Cli::from_arg_matches(&matches).unwrap().command else {
            panic!("not install")
        };
        *arguments
    }

    #[test]
    fn a_server_is_another_programs_by_its_mark_or_by_its_image() {
        let ours = json!({"velero.io/installed-by": "velero-rust v0.1.0"});
        for (annotations, container, image, foreign) in [
            (&ours, "velero", "ghcr.io/velero-rust/velero:v0.1.0", false),
            (&ours, "velero", "registry.example.com/velero:v0.1.0", false),
            (&ours, "velero", "velero/velero:v1.18.3", true),
            (&json!({}), "velero", "velero/velero:v1.18.3", true),
            (&json!({}), "velero", "registry.example.com/velero:v0.1.0", true),
            (&json!({}), "web", "velero/velero:v1.18.3", false),
        ] {
            let deployment = json!({
                "metadata": {"name": "velero", "annotations": annotations},
                "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": container, "image": image}]}}},
            });
            let found = foreign_server(&serde_json::from_value(deployment).unwrap());
            let expected = foreign.then(|| ("velero".to_owned(), image.to_owned()));
            assert_eq!(found, expected, "{annotations} {container} {image}");
        }
    }

    #[test]
    fn no_second_server_is_installed_beside_one_of_ours() {
        for (name, container, image, refused) in [
            ("velero", "velero", "ghcr.io/velero-rust/velero:v0.1.0", false),
            ("backup-velero", "velero", "ghcr.io/velero-rust/velero:v0.1.0", true),
            ("backup-velero", "velero", "velero/velero:v1.18.3", false),
            ("web", "web", "ghcr.io/velero-rust/velero:v0.1.0", false),
        ] {
            let deployment = json!({
                "metadata": {"name": name, "annotations": {"velero.io/installed-by": "velero-rust v0.1.0"}},
                "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": container, "image": image}]}}},
            });
            let renamed = renamed_server(&serde_json::from_value(deployment).unwrap());
            match check_renamed("backup", &Found { renamed, ..Found::default() }) {
                Ok(()) => assert!(!refused, "{name} {image}"),
                Err(error) => assert!(refused && error.to_string().contains("backup/backup-velero"), "{error}"),
            }
        }
    }

    #[test]
    fn another_velero_is_replaced_by_force_where_its_objects_are_known() {
        for (image, force, refusal) in [
            ("velero/velero:v1.18.3", false, Some("use --force")),
            ("velero/velero:v1.18.3", true, None),
            ("velero/velero:v1.9.0", true, None),
            ("ghcr.io/velero-rust/velero:v0.1.0", true, None),
            ("registry.example.com/velero:latest", true, None),
            ("velero/velero:v1.8.1", true, Some("older than 1.9")),
            ("velero/velero:v1.19.0", true, Some("newer than 1.18")),
        ] {
            let found = Found { foreign: vec![("velero".to_owned(), image.to_owned())], ..Found::default() };
            let said = check_foreign("backup", &found, force).map_err(|error| error.to_string());
            match (said, refusal) {
                (Ok(()), None) => {}
                (Err(said), Some(words)) => {
                    assert!(said.contains(words) && said.contains("backup/velero"), "{image}: {said}");
                    assert!(said.ends_with("nothing was changed"), "{image}: {said}");
                }
                (said, _) => panic!("{image}: {said:?}"),
            }
        }
    }

    #[test]
    fn node_agents_are_refused_where_a_namespace_of_the_users_would_refuse_their_pods() {
        let agents = parsed(&["--use-node-agent"]);
        let found = |level: Option<&str>, made: bool| Found {
            namespace: true,
            pod_security: level.map(str::to_owned),
            existing: Existing { namespace: made, ..Existing::default() },
            ..Found::default()
        };
        let refusal = check_pod_security("mine", &found(Some("baseline"), false), &agents).unwrap_err().to_string();
        assert!(refusal.contains("kubectl label") && refusal.contains("=privileged"), "{refusal}");
        for (level, made) in [(None, false), (Some("privileged"), false), (Some("restricted"), true)] {
            check_pod_security("mine", &found(level, made), &agents).unwrap();
        }
        check_pod_security("mine", &found(Some("restricted"), false), &parsed(&[])).unwrap();
    }
}
