//! The process of the agent: everything that runs in it, wired in one place.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_cluster::{Cluster, ConnectOptions};

use crate::node_agent::agent::{Agent, SharedAgent};
use crate::node_agent::metrics::NodeMetrics;
use crate::node_agent::preparing::Preparing;
use crate::node_agent::reconcile::TransferReconciler;
use crate::node_agent::settings::Settings;
use crate::node_agent::slots::Slots;
use crate::node_agent::transfer::Transfer;
use crate::node_agent::{http, startup, taken_up, triggers};
use crate::runtime::driver::{Times, drive_on};
use crate::runtime::error::Result;
use crate::runtime::logging;
use crate::runtime::objects::Objects;
use crate::runtime::signals::cancelled_when_told;
use crate::server::http::listen;
use crate::server::startup::check_cluster;

/// Runs the agent until the process is told to end. Movers run on; the next agent takes them up.
pub async fn run(settings: Settings) -> Result<()> {
    settings.validate()?;
    logging::install(settings.log.level()?, settings.log.log_format);
    run_until(settings, cancelled_when_told("Told to end")?).await
}

/// Runs the agent until a token is cancelled.
pub async fn run_until(settings: Settings, stop: CancellationToken) -> Result<()> {
    settings.validate()?;
    velero_cluster::install_crypto_provider();
    let Settings { version, namespace, node_name, .. } = &settings;
    tracing::info!(version, namespace, node = node_name, "Starting Velero node agent");
    let cluster = connect(&settings).await?;
    check_cluster(&cluster, &settings.namespace).await?;
    startup::check_no_other(cluster.client(), &settings).await?;
    startup::check_host_pods(cluster.client(), &settings).await?;
    let listener = match settings.metrics.metrics_address.as_str() {
        "" => None,
        address => Some(listen(address).await?),
    };
    let agent = agent(settings, cluster, stop).await?;
    take_up(&agent).await?;

    let mut tasks = JoinSet::new();
    if let Some(listener) = listener {
        tasks.spawn(http::serve(listener, agent.clone()));
    }
    start::<PodVolumeBackup>(&agent, &mut tasks, stream::pending());
    start::<PodVolumeRestore>(&agent, &mut tasks, awaited_restores(&agent));
    start::<DataUpload>(&agent, &mut tasks, stream::pending());
    start::<DataDownload>(&agent, &mut tasks, stream::pending());
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "A part of the agent ended unexpectedly, so the agent ends");
            agent.stop.cancel();
        }
    }
    tracing::info!("The agent has ended");
    Ok(())
}

async fn connect(settings: &Settings) -> Result<Cluster> {
    let options = ConnectOptions {
        kubeconfig: settings.kubeconfig.clone(),
        context: settings.context.clone(),
        user_agent: Some(format!("velero-node-agent/{}", settings.version)),
        ..ConnectOptions::default()
    };
    Ok(Cluster::connect(&options).await?)
}

async fn agent(settings: Settings, cluster: Cluster, stop: CancellationToken) -> Result<SharedAgent> {
    let node = startup::node(cluster.client(), &settings.node_name).await?;
    let objects = Objects::new(cluster, &settings.namespace);
    let config = startup::config(&objects, &settings.node_agent_configmap).await?;
    let concurrency = config.concurrency(&node.metadata.labels.unwrap_or_default());
    tracing::info!(concurrency, "Volumes are moved side by side");
    Ok(Arc::new(Agent {
        cache_limit: startup::cache_limit(&objects, &settings.backup_repository_configmap).await?,
        config,
        objects,
        slots: Slots::new(concurrency),
        preparing: Preparing::ahead_of(concurrency),
        metrics: NodeMetrics::new(&settings.node_name)?,
        inherited_pod: Default::default(),
        awaited_pods: Default::default(),
        accepting: Default::default(),
        settings,
        stop,
    }))
}

/// Counts what the agent before this one left at work.
async fn take_up(agent: &Agent) -> Result<()> {
    taken_up::count::<PodVolumeBackup>(agent).await?;
    taken_up::count::<PodVolumeRestore>(agent).await?;
    taken_up::count::<DataUpload>(agent).await?;
    taken_up::count::<DataDownload>(agent).await
}

/// The restores that wait for a pod of this node, whenever it changes.
fn awaited_restores(agent: &SharedAgent) -> impl Stream<Item = String> + Send + use<> {
    let pods = triggers::pods_of_node(agent.objects.cluster(), agent.node());
    let agent = agent.clone();
    pods.flat_map(move |pod| stream::iter(agent.awaited_pods.of(&pod)))
}

/// Starts the controller of a kind, which looks at an object when it, its pod or what else it waits for changes.
fn start<K: Transfer>(
    agent: &SharedAgent,
    tasks: &mut JoinSet<()>,
    further: impl Stream<Item = String> + Send + 'static,
) {
    let (source, woken) = triggers::channel();
    let reconciler = TransferReconciler::<K>::new(agent.clone(), source);
    let (cluster, namespace) = (agent.objects.cluster(), agent.objects.namespace());
    let pods = triggers::labelled_pods(cluster, namespace, K::POD_LABEL);
    let names = stream::select_all([pods.boxed(), UnboundedReceiverStream::new(woken).boxed(), further.boxed()]);
    tasks.spawn(drive_on(reconciler, agent.objects.clone(), names, Times::until(&agent.stop)));
}
