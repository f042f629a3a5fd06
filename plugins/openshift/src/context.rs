//! What all steps share: the connection, the settings, and what was looked up for the present backup or restore.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use velero_api::v1::Restore;
use velero_cluster::{Cluster, ConnectOptions, Discovery};
use velero_plugin::Result;

use crate::lock;
use crate::lookups::Lookups;
use crate::settings::Settings;
use crate::workflow::Work;

/// How many backups and restores are remembered at once.
const REMEMBERED: usize = 16;

/// Types that only OpenShift serves; one of them is enough.
const OPENSHIFT_TYPES: &[(&str, &str)] =
    &[("config.openshift.io", "clusterversions"), ("image.openshift.io", "imagestreams")];

/// What all steps share.
pub(crate) struct Context {
    cluster: OnceCell<Cluster>,
    /// Velero's own; that of the service account when neither the server nor the environment says it.
    namespace: Option<String>,
    is_openshift: OnceCell<bool>,
    settings: OnceCell<Settings>,
    lookups: Mutex<BTreeMap<String, Arc<Lookups>>>,
    preview: bool,
    /// Whether the process lives on while operations do.
    pub(crate) outlives_calls: bool,
}

impl Context {
    /// For a binary: it connects when it is first called.
    pub(crate) fn of_binary(outlives_calls: bool) -> Self {
        Self {
            cluster: OnceCell::new(),
            namespace: std::env::var("VELERO_NAMESPACE").ok().filter(|namespace| !namespace.is_empty()),
            is_openshift: OnceCell::new(),
            settings: OnceCell::new(),
            lookups: Mutex::default(),
            preview: false,
            outlives_calls,
        }
    }

    /// For the server, which knows that this is OpenShift.
    pub(crate) fn built_in(cluster: &Cluster, namespace: &str, preview: bool) -> Self {
        Self {
            cluster: OnceCell::new_with(Some(cluster.clone())),
            namespace: Some(namespace.to_owned()),
            is_openshift: OnceCell::new_with(Some(true)),
            preview,
            ..Self::of_binary(true)
        }
    }

    /// Whether a restore only shows what it would do: nothing is copied and nothing waited for. The server knows; a
    /// binary sees it in the restore.
    pub(crate) fn is_preview(&self, restore: &Restore) -> bool {
        self.preview || velero_api::dry_run::is_asked(restore)
    }

    pub(crate) async fn cluster(&self) -> Result<&Cluster> {
        self.cluster.get_or_try_init(|| async { Ok(Cluster::connect(&ConnectOptions::default()).await?) }).await
    }

    pub(crate) async fn is_openshift(&self) -> Result<bool> {
        let ask = || async { Ok(is_openshift(&self.cluster().await?.discover().await?)) };
        self.is_openshift.get_or_try_init(ask).await.copied()
    }

    pub(crate) async fn settings(&self) -> Result<&Settings> {
        let read = || async {
            let cluster = self.cluster().await?;
            let namespace = self.namespace.as_deref().unwrap_or_else(|| cluster.default_namespace());
            let settings = Settings::read(cluster, namespace).await?;
            settings.check_disabled(&crate::action_names())?;
            Ok(settings)
        };
        self.settings.get_or_try_init(read).await
    }

    /// What was looked up for a backup or restore.
    pub(crate) async fn lookups(&self, work: &(impl Work + Sync)) -> Result<Arc<Lookups>> {
        let cluster = self.cluster().await?;
        let mut all = lock(&self.lookups);
        let identity = work.identity();
        if all.len() >= REMEMBERED && !all.contains_key(&identity) {
            all.clear();
        }
        Ok(Arc::clone(all.entry(identity).or_insert_with(|| Arc::new(Lookups::new(cluster.clone())))))
    }
}

/// Whether a cluster is OpenShift, by what it serves.
pub fn is_openshift(discovery: &Discovery) -> bool {
    let is_one = |group: &str, plural: &str| OPENSHIFT_TYPES.contains(&(group, plural));
    discovery.all_versions().any(|served| is_one(&served.group, &served.plural))
}

#[cfg(test)]
mod tests {
    use velero_cluster::ResourceType;

    use super::*;

    #[test]
    fn openshift_is_known_by_what_it_serves() {
        for (api_version, kind, plural, expected) in [
            ("config.openshift.io/v1", "ClusterVersion", "clusterversions", true),
            ("image.openshift.io/v1", "ImageStream", "imagestreams", true),
            ("route.openshift.io/v1", "Route", "routes", false),
            ("apps/v1", "Deployment", "deployments", false),
        ] {
            let types = vec![ResourceType::new(api_version, kind, plural, true)];
            assert_eq!(is_openshift(&Discovery::new(types, Vec::new())), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn a_binary_sees_in_the_restore_that_it_is_only_looked_at() {
        let context = Context::of_binary(true);
        let mut restore = Restore::new("velero", "r", Default::default());
        assert!(!context.is_preview(&restore));
        let asked = (velero_api::annotations::DRY_RUN.to_owned(), "r".to_owned());
        restore.metadata.annotations = Some([asked].into());
        assert!(context.is_preview(&restore));
    }
}
