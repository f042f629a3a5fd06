//! The server process: everything that runs in it, wired in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use velero_cluster::{Cluster, ConnectOptions};
use velero_plugin::Actions;

use crate::backup::deletion::reconciler::BackupDeletionReconciler;
use crate::backup::owed_hooks;
use crate::backup::reconciler::BackupsReconciler;
use crate::backup::sync::BackupSyncReconciler;
use crate::download::DownloadRequestReconciler;
use crate::lifecycle::policies::global_policies;
use crate::lifecycle::records;
use crate::location::availability::BackupStorageLocationReconciler;
use crate::location::default::{ensure_later, is_default_ensured};
use crate::repository::location_changes::RepositoryLocationReconciler;
use crate::repository::reconciler::BackupRepositoryReconciler;
use crate::repository::settings::check_config_maps;
use crate::restore::default_modifiers;
use crate::restore::reconciler::RestoresReconciler;
use crate::runtime::backup_threads::BackupThreads;
use crate::runtime::context::{Context, InHand, SharedContext};
use crate::runtime::driver::{Reconciler, Times, drive};
use crate::runtime::error::{Error, Result};
use crate::runtime::holder::Holder;
use crate::runtime::leadership::Leadership;
use crate::runtime::locations::Locations;
use crate::runtime::logging;
use crate::runtime::metrics::Metrics;
use crate::runtime::objects::Objects;
use crate::runtime::parked::ParkedHooks;
use crate::runtime::plugins::Plugins;
use crate::runtime::repositories::Repositories;
use crate::runtime::retry::until_read;
use crate::runtime::settings::Settings;
use crate::runtime::signals::cancelled_when_told;
use crate::runtime::traces::{self, Delivery, Endpoint, HEADERS, TraceLayer};
use crate::schedule::ScheduleReconciler;
use crate::server::lease::ServerLease;
use crate::server::{census, http, interrupted, reports, startup, web};
use crate::status::kept;
use crate::status::request::ServerStatusRequestReconciler;

/// How long plugins may take to end when the server does.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long may take what a server tries before its controllers begin, and does later where it takes longer; and the Events of its
/// last work.
const MOMENT: Duration = Duration::from_secs(2);

/// Runs the server until the process is told to end; a backup or restore that runs then becomes Failed and
/// says why.
pub async fn run(settings: Settings) -> Result<()> {
    settings.validate()?;
    let (traces, delivery) = traces(&settings)?.unzip();
    logging::install_with_traces(settings.log.level()?, settings.log.log_format, traces);
    let ended = run_until(settings, cancelled_when_told("Told to end, finishing the work in hand")?).await;
    if let Some(delivery) = delivery {
        delivery.close().await;
    }
    ended
}

/// What makes traces and brings them away, where the server is asked for them.
fn traces(settings: &Settings) -> Result<Option<(TraceLayer, Delivery)>> {
    let Some(url) = settings.trace_url()? else { return Ok(None) };
    let headers = std::env::var(HEADERS).unwrap_or_default();
    let endpoint = Endpoint::new(url, &headers)
        .map_err(|error| Error::Setting { flag: "trace-endpoint", problem: error.to_string() })?;
    traces::start(endpoint, &settings.server_version).map(Some)
}

/// Runs the server until a token is cancelled and the work in hand is done.
pub async fn run_until(settings: Settings, stop: CancellationToken) -> Result<()> {
    run_until_with(settings, Actions::default(), stop).await
}

/// Like [`run_until`], with further actions that run in this process, behind those built in.
pub async fn run_until_with(settings: Settings, further: Actions, stop: CancellationToken) -> Result<()> {
    settings.validate()?;
    velero_cluster::install_crypto_provider();
    tracing::info!(version = settings.server_version, namespace = settings.namespace, "Starting Velero server");
    let leadership = Leadership::new(stop.clone());
    let cluster = connect(&settings, &leadership).await?;
    startup::check_cluster(&cluster, &settings.namespace).await?;
    let listener = match settings.metrics.metrics_address.as_str() {
        "" => None,
        address => Some(http::listen(address).await?),
    };
    let web_listener = match settings.web_address.as_str() {
        "" => None,
        address => Some((http::listen(address).await?, web::tls(&settings)?)),
    };
    let context = context(settings, cluster, further, leadership, stop).await?;
    check_settings(&context).await?;
    let lease = ServerLease::connect(&context.settings, context.holder.identity(), context.leadership.clone()).await?;

    let ready = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    if let Some(listener) = listener {
        tasks.spawn(http::serve(listener, context.clone(), ready.clone()));
    }
    if let Some((listener, tls)) = web_listener {
        tasks.spawn(web::serve(listener, tls, web::means(&context).await?));
    }
    // They watch from now on and reconcile once this server leads: so a takeover finds them ready.
    start_controllers(&context, &mut tasks);
    tasks.spawn(broken_off_at_the_end(context.clone(), census::count_all(context.clone())));
    let ended = wait_and_lead(&context, &mut tasks, lease, &ready).await;
    tasks.abort_all();
    // Nobody waits for plugins that do not want to end, nor for events that nobody takes.
    let _ = tokio::time::timeout(LAST_WORDS, async {
        context.plugins.end_questions().await;
        context.locations.close().await;
        context.events.close();
        context.events.wait().await;
    })
    .await;
    tracing::info!("The server has ended");
    ended
}

/// Waits for the Lease, then works for as long as it is held.
async fn wait_and_lead(
    context: &SharedContext,
    tasks: &mut JoinSet<()>,
    lease: ServerLease,
    ready: &AtomicBool,
) -> Result<()> {
    // Who waits is ready: to take over, and to answer what needs no leader.
    let Some(held) = lease.take(&context.stop, || ready.store(true, Ordering::Release)).await? else {
        until_all_end(context, tasks).await;
        return Ok(());
    };
    let done = CancellationToken::new();
    let mut keeping = AbortOnDropHandle::new(tokio::spawn(held.keep(done.clone())));
    let worked = tokio::select! {
        biased;
        lost = &mut keeping => return lost.unwrap_or_else(|error| Err(Error::Ended { problem: error.to_string() })),
        worked = lead(context, tasks, ready) => worked,
    };
    done.cancel();
    let kept = keeping.await.unwrap_or(Ok(()));
    worked.and(kept)
}

/// Ends what an earlier leader left, then lets the controllers work until the server is told to end. Lists that are not answered
/// are asked for again while the Lease is kept: nobody else would get them either. What else takes long, goes on beside the
/// controllers: pods, stores and webhooks that do not answer are to keep nobody waiting.
async fn lead(context: &SharedContext, tasks: &mut JoinSet<()>, ready: &AtomicBool) -> Result<()> {
    context.metrics.leads();
    let left = interrupted::find(context).await?;
    tasks.spawn(owed_hooks::pay_all(context.clone(), left.owing_hooks));
    interrupted::fail_interrupted(context, tasks, left.backups, left.restores).await;
    // That one object is refused, or hangs in a webhook, ends nobody who leads.
    if !at_once(is_default_ensured(context)).await {
        tasks.spawn(broken_off_at_the_end(context.clone(), ensure_later(context.clone())));
    }
    let counted = until_read(&context.stop, "the objects that are counted", || census::count_once(context));
    match tokio::time::timeout(MOMENT, counted).await {
        Ok(counted) => counted?,
        // The figures come soon, and nothing else waits for them.
        Err(_) => context.to_count.notify_one(),
    }
    if context.settings.is_enabled(ServerStatusRequestReconciler::CONTROLLER) {
        let is_true = at_once(kept::is_refreshed(context)).await;
        tasks.spawn(kept::keep(context.clone(), is_true));
    }
    tasks.spawn(broken_off_at_the_end(context.clone(), records::remove_ended(context.clone())));
    if let Some(cron) = context.settings.report_cron()? {
        tasks.spawn(broken_off_at_the_end(context.clone(), reports::write_all(context.clone(), cron)));
    }
    context.leadership.begin();
    ready.store(true, Ordering::Release);
    until_all_end(context, tasks).await;
    // Events are writes too: what the last ends tell is told while the Lease is held.
    context.events.close();
    let _ = tokio::time::timeout(MOMENT, context.events.wait()).await;
    Ok(())
}

/// Whether something was done that nobody waits for any longer than a moment; it is done later then.
async fn at_once(done: impl Future<Output = bool>) -> bool {
    tokio::time::timeout(MOMENT, done).await.unwrap_or(false)
}

/// Does something that the next server does anew, wherever it is when this one is told to end: an API server or a store that does
/// not answer must not keep the Lease.
async fn broken_off_at_the_end(context: SharedContext, work: impl Future<Output = ()> + Send + 'static) {
    let _ = context.stop.run_until_cancelled(work).await;
}

/// Waits until all parts of the server have ended, which they do when it is told to end.
async fn until_all_end(context: &Context, tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "A part of the server ended unexpectedly, so the server ends");
            context.stop.cancel();
        }
    }
}

/// Connects so that nothing is written unless this server leads.
async fn connect(settings: &Settings, leadership: &Leadership) -> Result<Cluster> {
    let options = ConnectOptions {
        kubeconfig: settings.kubeconfig.clone(),
        context: settings.context.clone(),
        user_agent: Some(format!("velero-server/{}", settings.server_version)),
        qps: settings.client_qps,
        burst: settings.client_burst,
        write_guard: Some(leadership.guard()),
        ..ConnectOptions::default()
    };
    Ok(Cluster::connect(&options).await?)
}

async fn context(
    settings: Settings,
    cluster: Cluster,
    further: Actions,
    leadership: Leadership,
    stop: CancellationToken,
) -> Result<SharedContext> {
    let plugins = Plugins::find(&settings, &cluster, further).await?;
    let objects = Objects::new(cluster, &settings.namespace);
    let locations = Locations::new(objects.clone(), settings.patience.resource_timeout.to_std(), plugins.stores());
    let locations = locations.guarded(leadership.guard());
    Ok(Arc::new(Context {
        repositories: Repositories::new(objects.clone(), locations.clone()),
        locations,
        objects,
        metrics: Metrics::new()?,
        backup_threads: BackupThreads::start(settings.concurrent_backups),
        plugins,
        holder: Holder::default(),
        leadership,
        backups: InHand::default(),
        restores: InHand::default(),
        parked_hooks: ParkedHooks::default(),
        hooks_paid: CancellationToken::new(),
        to_count: Notify::new(),
        events: TaskTracker::new(),
        settings,
        stop,
    }))
}

/// Says once what flags do not do and what restores cannot use, and refuses global policies that no backup could use.
async fn check_settings(context: &Context) -> Result<()> {
    for flag in context.settings.flags_without_effect() {
        tracing::warn!(flag, "The flag is accepted and has no effect");
    }
    check_config_maps(context).await?;
    let global = global_policies(&context.objects, &context.settings).await;
    let global = global
        .map_err(|unusable| Error::Setting { flag: "global-backup-volume-policies-configmap", problem: unusable.0 })?;
    if global.is_some_and(|policies| policies.has_other_policies()) {
        tracing::warn!(
            "Of --global-backup-volume-policies-configmap only volumePolicies are used, the rest is ignored"
        );
    }
    // Backups go on without them: only restores are refused until they can be used.
    if let Err(problem) = default_modifiers(&context.objects, &context.settings).await {
        tracing::error!(%problem, "Restores that name no modifiers of their own will be refused");
    }
    Ok(())
}

fn start_controllers(context: &SharedContext, tasks: &mut JoinSet<()>) {
    let mut controllers = Controllers { context: context.clone(), tasks };
    controllers.start(BackupStorageLocationReconciler::new(context.clone()));
    // Its parts are switched off one by one inside.
    controllers.start_always(BackupsReconciler::new(context.clone()));
    controllers.start(BackupSyncReconciler::new(context.clone()));
    controllers.start(BackupDeletionReconciler { context: context.clone() });
    controllers.start(RestoresReconciler::new(context.clone()));
    controllers.start(ScheduleReconciler::new(context.clone()));
    controllers.start(RepositoryLocationReconciler::new(context.clone()));
    controllers.start(BackupRepositoryReconciler::new(context.clone()));
    controllers.start(DownloadRequestReconciler { context: context.clone() });
    controllers.start(ServerStatusRequestReconciler { context: context.clone() });
}

struct Controllers<'a> {
    context: SharedContext,
    tasks: &'a mut JoinSet<()>,
}

impl Controllers<'_> {
    fn start<R: Reconciler>(&mut self, reconciler: R) {
        if self.context.settings.is_enabled(R::CONTROLLER) {
            self.start_always(reconciler);
        } else {
            tracing::info!(controller = R::CONTROLLER.name(), "The controller is disabled");
        }
    }

    fn start_always<R: Reconciler>(&mut self, reconciler: R) {
        let times = Times { begin: self.context.leadership.begun(), stop: self.context.stop.clone() };
        self.tasks.spawn(drive(reconciler, self.context.objects.clone(), times));
    }
}
