//! Sending the objects of an installation.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::wait::{await_condition, conditions};

use super::api_of;
use super::preflight::Found;
use crate::install::{Manner, Resource};
use crate::session::{Session, api_error};

/// Who owns the fields that are applied.
const FIELD_MANAGER: &str = "velero-cli";
/// How long definitions may take to become usable.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);
/// How long the server of another Velero may take to end.
const GONE_WITHIN: Duration = Duration::from_secs(180);

/// Sends the objects in order; custom resources follow when their definitions are usable.
pub(super) async fn send_all(session: &Session, resources: &[Resource], found: &Found) -> Result<()> {
    let is_definition = |resource: &&Resource| resource.kind() == "CustomResourceDefinition";
    for definition in resources.iter().filter(is_definition) {
        send(session, definition).await?;
    }
    session.printer.line("Waiting for resources to be ready in cluster...")?;
    wait_until_established(session, resources.iter().filter(is_definition)).await?;
    for resource in resources.iter().filter(|resource| !is_definition(resource)) {
        if resource.kind() == "Deployment" {
            remove_foreign(session, found).await?;
        }
        send(session, resource).await?;
    }
    Ok(())
}

async fn send(session: &Session, resource: &Resource) -> Result<()> {
    let (kind, name) = (resource.kind(), resource.name());
    let log = |text: &str| session.printer.line(format_args!("{kind}/{name}: {text}"));
    let api = api_of(session, resource, session.namespace())?;
    if resource.manner == Manner::Apply {
        log("attempting to apply resource")?;
        if kind == "ClusterRoleBinding" {
            remove_if_of_another_role(&api, resource).await?;
        }
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(name, &parameters, &Patch::Apply(&resource.object)).await;
        applied.map_err(api_error).with_context(|| format!("cannot apply {kind}/{name}"))?;
        return log("applied");
    }
    log("attempting to create resource")?;
    let object: DynamicObject = serde_json::from_value(resource.object.clone())?;
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &object).await {
        Ok(_) => log("created"),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => log("already exists, proceeding"),
        Err(error) => Err(api_error(error).context(format!("cannot create {kind}/{name}"))),
    }
}

/// Takes away what an earlier installation made and this one does without.
pub(super) async fn remove_all(session: &Session, superfluous: &[Resource]) -> Result<()> {
    for resource in superfluous {
        let (kind, name) = (resource.kind(), resource.name());
        let looked_at = Preconditions {
            uid: resource.object["metadata"]["uid"].as_str().map(str::to_owned),
            resource_version: None,
        };
        let parameters = DeleteParams::default().preconditions(looked_at);
        match api_of(session, resource, session.namespace())?.delete(name, &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.map_err(api_error).with_context(|| format!("cannot delete {kind}/{name}"))?),
        }
        session.printer.line(format_args!("{kind}/{name}: not wanted any more, deleted"))?;
    }
    Ok(())
}

/// The role of a binding cannot be changed, so a binding to another one makes way.
async fn remove_if_of_another_role(api: &Api<DynamicObject>, resource: &Resource) -> Result<()> {
    let found = api.get_opt(resource.name()).await.map_err(api_error)?;
    if found.is_some_and(|found| found.data["roleRef"]["name"] != resource.object["roleRef"]["name"]) {
        api.delete(resource.name(), &DeleteParams::default()).await.map_err(api_error)?;
    }
    Ok(())
}

/// Ends the servers of another Velero: two must not work side by side.
async fn remove_foreign(session: &Session, found: &Found) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    for (name, image) in &found.foreign {
        session.printer.line(format_args!("Deployment/{name}: replacing the server of {image}"))?;
        api.delete(name, &DeleteParams::foreground()).await.map_err(api_error)?;
        let gone = await_condition(api.clone(), name, |found: Option<&Deployment>| found.is_none());
        match tokio::time::timeout(GONE_WITHIN, gone).await {
            Ok(result) => drop(result?),
            Err(_) => bail!("Deployment {name} was deleted and is not gone after {GONE_WITHIN:?}; install again then"),
        }
    }
    Ok(())
}

async fn wait_until_established<'a>(session: &Session, definitions: impl Iterator<Item = &'a Resource>) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(session.cluster.client().clone());
    let wait_for_all = async {
        for definition in definitions {
            await_condition(api.clone(), definition.name(), conditions::is_crd_established()).await?;
        }
        Ok(())
    };
    match tokio::time::timeout(ESTABLISHED_WITHIN, wait_for_all).await {
        Ok(result) => result,
        Err(_) => bail!("timeout reached, CRDs not ready"),
    }
}
