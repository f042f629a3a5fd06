//! The routes of the page, and what all of them share.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use velero_cluster::Cluster;

use crate::attempts::Attempts;
use crate::connections::{Connections, Peer};
use crate::files::Files;
use crate::identity::TrustedProxy;
use crate::index::Index;
use crate::memo::Memo;
use crate::rights::Rights;
use crate::session::Keys;
use crate::tls::Tls;
use crate::{actions, guard, pages};

/// How long an answer may take.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);
/// How many requests are answered at once; others wait.
const MOST_REQUESTS: usize = 32;
/// How many more of those that read files, which take long: they take no place of the others.
const MOST_FILE_REQUESTS: usize = 32;
/// How many pages are told of changes at once. Others are current when they are loaded.
pub(crate) const MOST_LIVE: usize = 256;
/// How many files are read at once.
const MOST_FILES: usize = 4;
/// How many coverages are looked at at once; others wait. Each lists what the cluster has.
const MOST_COVERAGES: usize = 4;
/// How large a form may be.
pub(crate) const LARGEST_FORM: usize = 64 << 10;
/// How long a form may take to come. It takes no place of other requests meanwhile.
pub(crate) const FORM_TIME: Duration = Duration::from_secs(10);

/// What the page needs.
pub struct Means {
    /// A connection without credentials: whoever asks brings a token.
    pub anonymous: Cluster,
    /// The connection of the server, from which the lists come.
    pub own: Cluster,
    /// The namespace of the server.
    pub namespace: String,
    /// The version of the server.
    pub version: String,
    /// The files of backups and restores.
    pub files: Arc<dyn Files>,
    /// Who says who asks, beside the people themselves.
    pub proxy: Option<TrustedProxy>,
    /// Cancelled when the server is to end.
    pub stop: CancellationToken,
}

/// What all requests share.
pub(crate) struct State {
    pub(crate) means: Means,
    pub(crate) keys: Keys,
    pub(crate) attempts: Mutex<Attempts>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) index: Arc<Index>,
    /// What the first page tells of backups: without the bytes of volumes, and with them.
    pub(crate) glances: [Memo<pages::overview::Key>; 2],
    /// What it tells of schedules: how often they have changed, and the second it tells of.
    pub(crate) coming_runs: Memo<(u64, i64)>,
    /// What it tells of schedules whose last backup is no good: how often backups and schedules have changed, and that second.
    pub(crate) failing_schedules: Memo<([u64; 2], i64)>,
    /// What it tells of restores: how often they have changed, and that second.
    pub(crate) failed_restores: Memo<(u64, i64)>,
    /// The list of backups: how often they have changed, the second it tells of, and what was asked for.
    pub(crate) lists: Memo<(u64, i64, pages::backups::Wanted)>,
    /// What is safe, for one person.
    pub(crate) coverages: Memo<pages::coverage::Key>,
    pub(crate) requests: Semaphore,
    pub(crate) file_requests: Semaphore,
    pub(crate) live: Arc<Semaphore>,
    pub(crate) file_places: Semaphore,
    pub(crate) comparisons: Semaphore,
    pub(crate) coverage_places: Semaphore,
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<State>);

impl Deref for Shared {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// Serves the page until told to stop, encrypted where there is a certificate.
pub async fn serve(listener: TcpListener, tls: Option<Tls>, means: Means) {
    let keys = match Keys::new() {
        Ok(keys) => keys,
        Err(error) => {
            tracing::error!(%error, "The page is not served");
            return;
        }
    };
    let address = listener.local_addr().ok().map(|address| address.to_string());
    tracing::info!(address, encrypted = tls.is_some(), "Serving the page");
    let (stop, index) = (means.stop.clone(), Arc::<Index>::default());
    let (cluster, namespace) = (means.own.clone(), means.namespace.clone());
    let following = Arc::clone(&index).follow(cluster, namespace, stop.clone());
    let shared = Shared(Arc::new(State {
        means,
        keys,
        attempts: Mutex::default(),
        rights: Arc::default(),
        index,
        glances: Default::default(),
        coming_runs: Memo::default(),
        failing_schedules: Memo::default(),
        failed_restores: Memo::default(),
        lists: Memo::default(),
        coverages: Memo::default(),
        requests: Semaphore::new(MOST_REQUESTS),
        file_requests: Semaphore::new(MOST_FILE_REQUESTS),
        live: Arc::new(Semaphore::new(MOST_LIVE)),
        file_places: Semaphore::new(MOST_FILES),
        comparisons: Semaphore::new(1),
        coverage_places: Semaphore::new(MOST_COVERAGES),
    }));
    let service = router(shared).into_make_service_with_connect_info::<Peer>();
    tokio::select! {
        served = axum::serve(Connections::new(listener, tls), service) => {
            if let Err(error) = served {
                tracing::error!(%error, "The page is not served any more");
            }
        }
        () = following => {}
    }
}

fn router(shared: Shared) -> Router {
    let reading = Router::new()
        .route("/", get(pages::overview::show))
        .route("/coverage", get(pages::coverage::show))
        .route("/backups", get(pages::backups::show))
        .route("/backups/{name}", get(pages::backup::show))
        .route("/backups/{name}/log", get(pages::log::of_backup))
        .route("/backups/{name}/objects", get(pages::objects::of_backup))
        .route("/backups/{name}/object", get(pages::objects::one))
        .route("/backups/{name}/compare", get(pages::compare::with_backup))
        .route("/backups/{name}/compare-cluster", get(pages::compare::with_cluster))
        .route("/backups/{name}/compare-object", get(pages::object_difference::show))
        .route("/restores", get(pages::restores::show))
        .route("/restores/{name}", get(pages::restore::show))
        .route("/restores/{name}/log", get(pages::log::of_restore))
        .route("/restores/{name}/objects", get(pages::objects::of_restore))
        .route("/schedules", get(pages::schedules::show))
        .route("/schedules/{name}", get(pages::schedule::show))
        .route("/locations", get(pages::locations::show))
        .route("/locations/{name}", get(pages::location::show))
        .route("/search", get(pages::search::show))
        .route("/live", get(pages::live::stream))
        .route("/style.css", get(pages::assets::style))
        .route("/script.js", get(pages::assets::script))
        .route("/icon.svg", get(pages::assets::icon))
        .route("/favicon.ico", get(pages::assets::icon));
    let acting = Router::new()
        .route("/sign-in", get(actions::sign_in::show).post(actions::sign_in::submit))
        .route("/sign-out", post(actions::sign_in::end))
        .route("/new-backup", get(actions::new_backup::show).post(actions::new_backup::submit))
        .route("/backups/{name}/cancel", post(actions::cancel::backup))
        .route("/backups/{name}/delete", get(actions::delete::show).post(actions::delete::submit))
        .route("/new-restore", get(actions::new_restore::show).post(actions::new_restore::submit))
        .route("/previews/{name}", get(actions::preview::show).post(actions::preview::start))
        .route("/restores/{name}/cancel", post(actions::cancel::restore))
        .route("/schedules/{name}/pause", post(actions::schedule::pause))
        .route("/schedules/{name}/resume", post(actions::schedule::resume))
        .route("/schedules/{name}/run", post(actions::schedule::run));
    reading
        .merge(acting)
        .fallback(pages::nothing_here)
        .layer(from_fn_with_state(shared.clone(), guard::guard))
        .with_state(shared)
}
