//! What actions look up in the cluster: once a backup or restore, when it is first needed, not once an item.

pub(crate) mod constraints;
pub(crate) mod pull_secrets;
pub(crate) mod registry;
pub(crate) mod version;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::sleep;
use velero_api::v1::Restore;
use velero_cluster::{Cluster, ItemRef, ResourceType};
use velero_plugin::item::text;
use velero_plugin::{Error, Result};

use self::constraints::ConstraintIndex;
use self::pull_secrets::PullSecrets;
use self::version::ServerVersion;
use crate::compat::Compat;
use crate::images::arrivals::Arrivals;
use crate::lock;
use crate::names::OADP_REGISTRY_CONFIG;
use crate::settings::Settings;
use crate::workflow::Work;

const PAGE_SIZE: u32 = 500;
/// How often pull secrets are looked for while a namespace lacks them.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What was looked up for one backup or restore.
pub(crate) struct Lookups {
    cluster: Cluster,
    version: OnceCell<ServerVersion>,
    registry: OnceCell<String>,
    oadp_registry: OnceCell<Option<String>>,
    backup: OnceCell<Option<Value>>,
    constraints: OnceCell<ConstraintIndex>,
    needs_pull_secrets: OnceCell<bool>,
    pull_secrets: Mutex<BTreeMap<String, Arc<PullSecrets>>>,
    image_stream_tags: Mutex<BTreeMap<String, Arc<Vec<Value>>>>,
    /// What copies of this restore make.
    pub(crate) arrivals: Arrivals,
}

impl Lookups {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            version: OnceCell::new(),
            registry: OnceCell::new(),
            oadp_registry: OnceCell::new(),
            backup: OnceCell::new(),
            constraints: OnceCell::new(),
            needs_pull_secrets: OnceCell::new(),
            pull_secrets: Mutex::default(),
            image_stream_tags: Mutex::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// The version of the API server.
    pub(crate) async fn version(&self) -> Result<&ServerVersion> {
        let ask = || async { version::ask(&self.cluster).await };
        self.version.get_or_try_init(ask).await
    }

    /// Where the internal registry is; empty when there is none.
    pub(crate) async fn registry_hostname(&self, settings: &Settings) -> Result<&str> {
        let ask = || async {
            let streams = self.list(&types::image_streams(), Some("openshift")).await;
            if let Some(hostname) = streams.ok().as_deref().and_then(registry::of_image_streams) {
                return Ok(hostname);
            }
            match registry::place(self.version().await?)? {
                registry::Place::Service => {
                    let found =
                        self.get(types::services().item(Some("default"), "docker-registry")).await.ok().flatten();
                    Ok(found.as_ref().map(registry::of_service).unwrap_or_default())
                }
                registry::Place::Config => {
                    let found = self
                        .get(velero_cluster::types::CONFIG_MAPS.item(Some("openshift-apiserver"), "config"))
                        .await?;
                    registry::of_config(found.as_ref(), settings.compat(Compat::RegistryRequired))
                }
            }
        };
        self.registry.get_or_try_init(ask).await.map(String::as_str)
    }

    /// The registry that OADP keeps for a storage location; `None` without OADP.
    pub(crate) async fn oadp_registry(&self, namespace: &str, location: &str) -> Result<Option<&str>> {
        let ask = || async {
            let Some(config) =
                self.get(velero_cluster::types::CONFIG_MAPS.item(Some(namespace), OADP_REGISTRY_CONFIG)).await?
            else {
                return Ok(None);
            };
            let name = config["data"].get(location).and_then(Value::as_str).unwrap_or_default();
            if name.is_empty() {
                return Ok(None);
            }
            let route = self.get_existing(types::routes().item(Some(namespace), name)).await?;
            Ok::<_, Error>(Some(text(&route, "/spec/host").to_owned()))
        };
        Ok(self.oadp_registry.get_or_try_init(ask).await?.as_deref())
    }

    /// The Backup that is restored; `None` when it does not exist.
    pub(crate) async fn backup_of(&self, restore: &Restore) -> Result<Option<&Value>> {
        let ask =
            || async { self.get(types::backups().item(Some(restore.namespace()), &restore.spec.backup_name)).await };
        Ok(self.backup.get_or_try_init(ask).await?.as_ref())
    }

    /// Which security context constraints name which service accounts.
    pub(crate) async fn constraints(&self) -> Result<&ConstraintIndex> {
        let ask = || async { Ok(ConstraintIndex::new(&self.list(&types::constraints(), None).await?)) };
        self.constraints.get_or_try_init(ask).await
    }

    /// Whether this cluster makes pull secrets for its registry, so that they are to be waited for.
    pub(crate) async fn needs_pull_secrets(&self) -> Result<bool> {
        let ask = || async {
            let version = self.get(types::cluster_versions().item(None, "version")).await?;
            let registry = self.get(types::registry_configs().item(None, "cluster")).await?;
            pull_secrets::are_made(version.as_ref(), registry.as_ref())
        };
        self.needs_pull_secrets.get_or_try_init(ask).await.copied()
    }

    /// The pull secrets of a namespace, as soon as there is one for each prefix. A namespace that is older than
    /// `longest` is not waited for.
    pub(crate) async fn pull_secrets(
        &self,
        namespace: &str,
        prefixes: &[&str],
        longest: Duration,
    ) -> Result<Arc<PullSecrets>> {
        loop {
            if let Some(known) = lock(&self.pull_secrets).get(namespace).filter(|known| known.have(prefixes)) {
                return Ok(Arc::clone(known));
            }
            let secrets = self.list(&velero_cluster::types::SECRETS, Some(namespace)).await?;
            let accounts = self.list(&velero_cluster::types::SERVICE_ACCOUNTS, Some(namespace)).await?;
            let found = Arc::new(PullSecrets::new(&secrets, &accounts));
            lock(&self.pull_secrets).insert(namespace.to_owned(), Arc::clone(&found));
            if found.have(prefixes) || longest.is_zero() {
                return Ok(found);
            }
            let space = self.get(velero_cluster::types::NAMESPACES.item(None, namespace)).await?;
            let created = space.as_ref().map_or("", |space| text(space, "/metadata/creationTimestamp"));
            pull_secrets::check_age(namespace, created, Timestamp::now(), longest)?;
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The image stream tags of a namespace.
    pub(crate) async fn image_stream_tags(&self, namespace: &str) -> Result<Arc<Vec<Value>>> {
        if let Some(known) = lock(&self.image_stream_tags).get(namespace) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.list(&types::image_stream_tags(), Some(namespace)).await?);
        lock(&self.image_stream_tags).insert(namespace.to_owned(), Arc::clone(&found));
        Ok(found)
    }

    /// An object; `None` when it does not exist.
    pub(crate) async fn get(&self, item: ItemRef<'_>) -> Result<Option<Value>> {
        Ok(self.cluster.get(item).await?)
    }

    /// The same of one that has to be there.
    pub(crate) async fn get_existing(&self, item: ItemRef<'_>) -> Result<Value> {
        let missing = || Error::Item(format!("{item} does not exist"));
        self.get(item).await?.ok_or_else(missing)
    }

    /// All objects of a type; none when the cluster does not serve it.
    pub(crate) async fn list(&self, kind: &ResourceType, namespace: Option<&str>) -> Result<Vec<Value>> {
        self.list_labelled(kind, namespace, None).await
    }

    /// Those of them that a label selector matches.
    pub(crate) async fn list_labelled(
        &self,
        kind: &ResourceType,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Value>> {
        let pages = self.cluster.list_pages(kind, namespace, selector, PAGE_SIZE);
        let pages: Vec<_> = match pages.try_collect().await {
            Err(velero_cluster::Error::NotFound(_)) => Vec::new(),
            outcome => outcome?,
        };
        pages.iter().flat_map(|page| &page.items).map(|item| Ok(item.to_value()?)).collect()
    }

    /// The cluster, to write to it.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

/// The types that are looked at.
pub(crate) mod types {
    use velero_cluster::ResourceType;

    macro_rules! types {
        ($($name:ident: $api_version:literal $kind:literal $plural:literal $namespaced:literal,)+) => {
            $(pub(crate) fn $name() -> ResourceType {
                ResourceType::new($api_version, $kind, $plural, $namespaced)
            })+
        };
    }

    types! {
        backups: "velero.io/v1" "Backup" "backups" true,
        cluster_versions: "config.openshift.io/v1" "ClusterVersion" "clusterversions" false,
        constraints: "security.openshift.io/v1" "SecurityContextConstraints" "securitycontextconstraints" false,
        deployment_configs: "apps.openshift.io/v1" "DeploymentConfig" "deploymentconfigs" true,
        image_stream_tags: "image.openshift.io/v1" "ImageStreamTag" "imagestreamtags" true,
        image_streams: "image.openshift.io/v1" "ImageStream" "imagestreams" true,
        registry_configs: "imageregistry.operator.openshift.io/v1" "Config" "configs" false,
        routes: "route.openshift.io/v1" "Route" "routes" true,
        services: "v1" "Service" "services" true,
    }
}
