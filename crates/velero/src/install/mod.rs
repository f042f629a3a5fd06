//! What an installation consists of: from flags to resources, without touching a cluster.
//!
//! [`check`] refuses flags that contradict each other, [`resources`] lists what is to be created, in order. Sending it
//! is the command's work.

mod check;
mod daemonset;
mod deployment;
mod locations;
mod namespace;
pub(crate) mod network;
mod pod;
mod quantity;
mod rbac;
mod web_page;

use serde_json::{Value, json};
use velero_api::labels;

use crate::arguments::InstallArguments;

pub(crate) use check::{check, check_existing};
pub(crate) use daemonset::NODE_AGENTS;
pub(crate) use deployment::plugin_rights;
pub(crate) use locations::{CLAIM, SECRET, SECRET_KEY, bucket};
pub(crate) use namespace::{POD_SECURITY, PRIVILEGED, RESTRICTED};
pub(crate) use rbac::{MOVER, cloud_identity, cluster_name};

/// On the Deployment: which program made it.
pub(crate) const INSTALLED_BY: &str = "velero.io/installed-by";
/// The name of the server's Deployment, container and ServiceAccount.
pub(crate) const SERVER: &str = "velero";
/// The name of the locations.
pub(crate) const DEFAULT_LOCATION: &str = "default";

/// Everything that decides what is installed.
pub(crate) struct Installation<'a> {
    /// The namespace of the server.
    pub(crate) namespace: &'a str,
    /// The flags.
    pub(crate) arguments: &'a InstallArguments,
    /// The files that flags name.
    pub(crate) files: Files,
    /// What an earlier installation left.
    pub(crate) existing: Existing,
}

/// The content of files that flags name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// The credentials.
    pub(crate) secret: Option<Vec<u8>>,
    /// The certificates to trust.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// What is in the namespace already and goes on to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Existing {
    /// The namespace, made by an installation.
    pub(crate) namespace: bool,
    /// The namespace, and it is not restricted: pods of others may count on that.
    pub(crate) open_namespace: bool,
    /// The default backup storage location.
    pub(crate) location: bool,
    /// The claim for backups.
    pub(crate) claim: bool,
    /// The Secret with credentials.
    pub(crate) secret: bool,
}

/// One object of an installation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    /// The object.
    pub(crate) object: Value,
    /// What happens to one that exists.
    pub(crate) manner: Manner,
}

/// What happens to an object that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It becomes what the installation says.
    Apply,
    /// It stays as it is: it is the user's.
    Keep,
}

impl Resource {
    fn applied(object: Value) -> Self {
        Self { object, manner: Manner::Apply }
    }

    fn kept(object: Value) -> Self {
        Self { object, manner: Manner::Keep }
    }

    /// Kept unless flags say what it is to be.
    fn applied_if(named: bool, object: Value) -> Self {
        Self { object, manner: if named { Manner::Apply } else { Manner::Keep } }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The namespace; none for what belongs to the cluster.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str()
    }
}

/// The definitions of the custom resources.
pub(crate) fn definitions() -> Vec<Resource> {
    velero_api::crd::all().into_iter().map(Resource::applied).collect()
}

/// Everything that is installed, in the order it is created in.
pub(crate) fn resources(installation: &Installation<'_>) -> Vec<Resource> {
    let mut resources = definitions();
    resources.push(namespace::namespace(installation));
    resources.extend(rbac::resources(installation));
    resources.extend(network::policies(installation));
    resources.extend(locations::resources(installation));
    resources.push(Resource::applied(deployment::deployment(installation)));
    if deployment::has_several(installation) {
        resources.push(Resource::applied(deployment::disruption_budget(installation)));
    }
    let agents = &installation.arguments.node_agent;
    if agents.use_node_agent {
        resources.push(Resource::applied(daemonset::daemonset(installation, daemonset::System::Linux)));
    }
    if agents.use_node_agent_windows {
        resources.push(Resource::applied(daemonset::daemonset(installation, daemonset::System::Windows)));
    }
    resources
}

/// What other flags would have made and these leave out: where an earlier installation made it, it is to go.
pub(crate) fn left_out(installation: &Installation<'_>) -> Vec<Resource> {
    let mut left_out = network::left_out(installation);
    left_out.extend(rbac::left_out(installation));
    if !deployment::has_several(installation) {
        left_out.push(Resource::applied(deployment::disruption_budget(installation)));
    }
    left_out
}

/// The image unless another one is chosen; `VELERO_IMAGE_REGISTRY` names another registry for the compiler.
pub(crate) fn default_image() -> String {
    let registry = option_env!("VELERO_IMAGE_REGISTRY").unwrap_or(velero_api::IMAGE_REGISTRY);
    format!("{registry}/velero:{}", crate::version::VERSION)
}

/// Metadata with the label that all objects of an installation carry.
fn metadata(namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = json!({ "name": name, "labels": { labels::COMPONENT: labels::COMPONENT_VELERO } });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

#[cfg(test)]
mod tests;
