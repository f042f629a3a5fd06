//! A connected command: the cluster, the namespace and the printer.

use std::env;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use velero_api::resource::VeleroResource;
use velero_cluster::{Cluster, ConnectOptions, list_all};

use crate::printer::Printer;
use crate::settings::Settings;

/// How often a request is repeated: a person is waiting.
const RETRIES: u32 = 2;

/// A command that talks to a cluster.
#[derive(Clone)]
pub(crate) struct Session {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// What flags and files say.
    pub(crate) settings: Settings,
    /// Where output goes.
    pub(crate) printer: Printer,
}

impl Session {
    /// Connects; nothing is sent yet.
    pub(crate) async fn connect(settings: &Settings, printer: Printer) -> Result<Self> {
        let options = ConnectOptions {
            kubeconfig: settings.kubeconfig.clone(),
            context: settings.context.clone(),
            user_agent: Some(user_agent()),
            retries: RETRIES,
            ..ConnectOptions::default()
        };
        let cluster = Cluster::connect(&options).await?;
        Ok(Self { cluster, settings: settings.clone(), printer })
    }

    /// The namespace of the server and its objects.
    pub(crate) fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    /// Access to a kind in that namespace.
    pub(crate) fn api<K: VeleroResource>(&self) -> Api<K> {
        Api::namespaced(self.cluster.client().clone(), self.namespace())
    }

    /// An object by name; it must exist.
    pub(crate) async fn get<K: VeleroResource>(&self, name: &str) -> Result<K> {
        self.api().get(name).await.map_err(api_error)
    }

    /// An object by name, if it exists.
    pub(crate) async fn find<K: VeleroResource>(&self, name: &str) -> Result<Option<K>> {
        self.api().get_opt(name).await.map_err(api_error)
    }

    /// All objects that match a label selector; an empty one matches all.
    pub(crate) async fn list<K: VeleroResource>(&self, selector: &str) -> Result<Listed<K>> {
        let list = list_all(&self.api::<K>(), &ListParams::default().labels(selector)).await.map_err(api_error)?;
        Ok(Listed { items: list.items, resource_version: list.metadata.resource_version })
    }

    /// The named objects, or all that match the selector when none is named.
    pub(crate) async fn select<K: VeleroResource>(&self, names: &[String], selector: &str) -> Result<Listed<K>> {
        if names.is_empty() {
            let selector: velero_rules::selector::Selector = selector.parse()?;
            return self.list(&selector.to_string()).await;
        }
        let mut items = Vec::with_capacity(names.len());
        for name in names {
            items.push(self.get(name).await?);
        }
        Ok(Listed { items, resource_version: None })
    }

    /// Creates an object; gives what the server made of it.
    pub(crate) async fn create<K: VeleroResource>(&self, object: &K) -> Result<K> {
        self.api().create(&PostParams::default(), object).await.map_err(api_error)
    }

    /// Deletes an object.
    pub(crate) async fn delete<K: VeleroResource>(&self, name: &str) -> Result<()> {
        self.api::<K>().delete(name, &DeleteParams::default()).await.map(drop).map_err(api_error)
    }

    /// Sends what has changed in an object.
    pub(crate) async fn update<K: VeleroResource>(&self, original: &K, modified: &K) -> Result<()> {
        self.cluster.patch_changes_if_unchanged(original, modified).await?;
        Ok(())
    }
}

/// Objects and, when they came from one list call, its version.
#[derive(Clone, Debug)]
pub(crate) struct Listed<K> {
    /// The objects.
    pub(crate) items: Vec<K>,
    /// The version of the list.
    pub(crate) resource_version: Option<String>,
}

/// What the API server said, without the words around it: scripts and people know its sentences.
pub(crate) fn api_error(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => anyhow!(status.message.clone()),
        other => Error::new(other).context("cannot talk to the Kubernetes API server"),
    }
}

/// Who sends the requests: the name this program was started by, its version and platform.
fn user_agent() -> String {
    let program = env::args().next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or("velero");
    let version = crate::version::VERSION;
    format!("{name}/{version} ({}/{}) {}", env::consts::OS, env::consts::ARCH, crate::version::GIT_COMMIT)
}
