//! `velero plugin …`

use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata;

use super::server_status::{SERVER_CONTAINER, ask_server, server_deployment};
use crate::arguments::{PluginAddArguments, PluginGetArguments, PluginRemoveArguments};
use crate::install::plugin_rights;
use crate::output::{Format, print_plugins};
use crate::session::{Session, api_error};

/// The volume that init containers put plugin binaries into.
const VOLUME: &str = "plugins";
/// Where the server looks for them.
const SERVER_FOLDER: &str = "/plugins";
/// Where an init container puts them.
const PLUGIN_FOLDER: &str = "/target";
/// How often a change is tried that others come before.
const TRIES: u32 = 10;
/// The longest name that leaves room for a dash and five more characters.
const LONGEST_WITH_SUFFIX: usize = 57;

/// Shows the plugins of the server.
pub(super) async fn get(session: &Session, arguments: &PluginGetArguments) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    match ask_server(session, arguments.status.timeout.to_std()).await {
        Ok(status) => print_plugins(session.printer, status, format),
        Err(error) => session.printer.line(format_args!("<error getting plugin information: {error:#}>")),
    }
}

/// Adds a plugin to the server's Deployment.
pub(super) async fn add(session: &Session, arguments: &PluginAddArguments) -> Result<()> {
    if !arguments.confirm {
        let printer = &session.printer;
        printer.line("velero plugin add may cause the Velero server pod restart, so it is a dangerous operation")?;
        printer.line("once Velero server restarts, all the ongoing jobs will fail.")?;
        if !printer.confirm()? {
            return Ok(());
        }
    }
    let suffix = &uuid::Uuid::new_v4().simple().to_string()[..5];
    change(session, |pod| add_container(pod, &arguments.image, &arguments.image_pull_policy, suffix)).await
}

/// Removes a plugin from the server's Deployment.
pub(super) async fn remove(session: &Session, arguments: &PluginRemoveArguments) -> Result<()> {
    change(session, |pod| remove_container(pod, &arguments.plugin)).await
}

/// Changes the pod of the server's Deployment. Whoever changes it at the same time, as its controller does after every
/// change, loses nothing: then it is read and changed again.
async fn change(session: &Session, change: impl Fn(&mut PodSpec) -> Result<()>) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let mut tries_left = TRIES;
    loop {
        let deployment = server_deployment(session).await?.ok_or_else(|| anyhow!("Velero deployment not found"))?;
        let name = metadata::name(&deployment).to_owned();
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(changed(deployment, &change)?)).await;
        tries_left -= 1;
        match patched {
            Err(kube::Error::Api(refusal)) if refusal.is_conflict() && tries_left > 0 => {}
            outcome => return outcome.map(drop).map_err(api_error),
        }
    }
}

/// What changes the pod of a Deployment that is still as it was read.
fn changed(deployment: Deployment, change: impl Fn(&mut PodSpec) -> Result<()>) -> Result<Value> {
    let mut pod = deployment.spec.and_then(|spec| spec.template.spec).unwrap_or_default();
    change(&mut pod)?;
    Ok(json!({
        "metadata": {"resourceVersion": deployment.metadata.resource_version},
        "spec": {"template": {"spec": {
            "containers": pod.containers,
            "initContainers": pod.init_containers.unwrap_or_default(),
            "volumes": pod.volumes.unwrap_or_default(),
        }}},
    }))
}

fn add_container(pod: &mut PodSpec, image: &str, pull_policy: &str, suffix: &str) -> Result<()> {
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == VOLUME) {
        let empty_dir = Some(EmptyDirVolumeSource::default());
        volumes.push(Volume { name: VOLUME.to_owned(), empty_dir, ..Volume::default() });
        let server = pod.containers.iter_mut().find(|container| container.name == SERVER_CONTAINER);
        let server = server.ok_or_else(|| anyhow!("velero container not found in velero deployment"))?;
        server.volume_mounts.get_or_insert_default().push(mount(SERVER_FOLDER));
    }
    let rights = if is_confined(pod) { Some(serde_json::from_value(plugin_rights())?) } else { None };
    let containers = pod.init_containers.get_or_insert_default();
    let taken: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    containers.push(Container {
        name: container_name(image, &taken, suffix),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy.to_owned()),
        volume_mounts: Some(vec![mount(PLUGIN_FOLDER)]),
        security_context: rights,
        ..Container::default()
    });
    Ok(())
}

/// Whether nothing in the pod is to run as root: then its namespace may refuse a container that does not say as much.
fn is_confined(pod: &PodSpec) -> bool {
    pod.security_context.as_ref().and_then(|rights| rights.run_as_non_root).unwrap_or(false)
}

fn mount(path: &str) -> VolumeMount {
    VolumeMount { name: VOLUME.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn remove_container(pod: &mut PodSpec, plugin: &str) -> Result<()> {
    let containers = pod.init_containers.get_or_insert_default();
    let found =
        containers.iter().position(|container| container.name == plugin || container.image.as_deref() == Some(plugin));
    let Some(place) = found else { bail!("init container {plugin} not found in Velero server deployment") };
    containers.remove(place);
    Ok(())
}

/// The name of the init container of an image: without registry, tag and digest, in the form of a label.
pub(crate) fn container_name(image: &str, taken: &[&str], suffix: &str) -> String {
    let has_registry = image.starts_with('/') || image.matches('/').count() > 1;
    let path = if has_registry { image.split_once('/').map_or(image, |(_, path)| path) } else { image };
    let path = match (path.rfind('@'), path.rfind(':')) {
        (Some(end), _) | (None, Some(end)) if end > 0 => &path[..end],
        _ => path,
    };
    let plain = path.replace(['/', '_', '.'], "-");
    let name = labels::valid_value(&plain);
    if !taken.contains(&name.as_str()) {
        return name;
    }
    let cut: String = plain.chars().take(LONGEST_WITH_SUFFIX).collect();
    format!("{}-{suffix}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_after_its_image() {
        for (image, expected) in [
            ("velero/velero-plugin-for-aws:v1.14.3", "velero-velero-plugin-for-aws"),
            ("docker.io/velero/velero-plugin-for-aws:v1.14.3", "velero-velero-plugin-for-aws"),
            ("localhost:5000/velero/my_plugin.x", "velero-my-plugin-x"),
            ("plugin", "plugin"),
            ("plugin@sha256:abc", "plugin"),
            ("/plugin:v1", "plugin"),
        ] {
            assert_eq!(container_name(image, &[], "abcde"), expected, "{image}");
        }
        assert_eq!(container_name("plugin:v2", &["plugin"], "abcde"), "plugin-abcde");
        let long = "a".repeat(80);
        assert_eq!(container_name(&long, &[], "abcde").len(), 63);
        let shortened = container_name(&long, &[], "abcde");
        assert_eq!(container_name(&long, &[&shortened], "abcde").len(), 63);
    }

    fn server() -> PodSpec {
        let container = Container { name: "velero".to_owned(), ..Container::default() };
        PodSpec { containers: vec![container], ..PodSpec::default() }
    }

    #[test]
    fn a_plugin_that_is_added_and_removed_leaves_only_the_folder_behind() {
        let mut pod = server();
        add_container(&mut pod, "a/b:v1", "Always", "abcde").unwrap();
        add_container(&mut pod, "a/b:v2", "Always", "abcde").unwrap();
        let names = |pod: &PodSpec| -> Vec<String> {
            pod.init_containers.iter().flatten().map(|container| container.name.clone()).collect()
        };
        assert_eq!(names(&pod), ["a-b", "a-b-abcde"]);
        assert_eq!(pod.volumes.as_ref().unwrap().len(), 1);
        assert_eq!(pod.containers[0].volume_mounts.as_ref().unwrap()[0].mount_path, "/plugins");
        remove_container(&mut pod, "a/b:v1").unwrap();
        remove_container(&mut pod, "a-b-abcde").unwrap();
        assert!(names(&pod).is_empty());
        assert!(remove_container(&mut pod, "a-b").unwrap_err().to_string().contains("a-b not found"));
    }

    #[test]
    fn a_plugin_of_a_confined_server_is_confined_too() {
        let rights = |pod: &PodSpec| pod.init_containers.as_ref().unwrap()[0].security_context.clone();
        let mut pod = server();
        add_container(&mut pod, "a/b:v1", "Always", "abcde").unwrap();
        assert_eq!(rights(&pod), None, "the pod of another Velero stays as it is");
        let mut pod = server();
        let confined = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        pod.security_context = Some(serde_json::from_value(confined).unwrap());
        add_container(&mut pod, "a/b:v1", "Always", "abcde").unwrap();
        let rights = rights(&pod).unwrap();
        assert_eq!((rights.run_as_user, rights.allow_privilege_escalation), (Some(65532), Some(false)));
    }

    #[test]
    fn a_deployment_without_the_server_is_refused() {
        let mut pod = PodSpec::default();
        assert!(add_container(&mut pod, "a/b", "Always", "abcde").is_err());
    }
}
