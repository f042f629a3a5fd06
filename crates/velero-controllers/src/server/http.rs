//! The server's HTTP side: metrics, health, and files for those who cannot reach the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::download;
use crate::runtime::context::SharedContext;
use crate::runtime::error::{Error, Result, describe};

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    context: SharedContext,
    ready: Arc<AtomicBool>,
}

/// Binds the address of a `--metrics-address`; without a host it listens on all.
pub(crate) async fn listen(address: &str) -> Result<TcpListener> {
    let full = if address.starts_with(':') { format!("[::]{address}") } else { address.to_owned() };
    let bound = match TcpListener::bind(&full).await {
        // A machine without IPv6 still has all its IPv4 addresses.
        Err(_) if address.starts_with(':') => TcpListener::bind(format!("0.0.0.0{address}")).await,
        bound => bound,
    };
    bound.map_err(|source| Error::Listen { address: address.to_owned(), source })
}

/// Serves until the process is to end; downloads that run are given up then.
pub(crate) async fn serve(listener: TcpListener, context: SharedContext, ready: Arc<AtomicBool>) {
    let stop = context.stop.clone();
    let address: Option<SocketAddr> = listener.local_addr().ok();
    tracing::info!(address = address.map(|address| address.to_string()), "Serving metrics, health and downloads");
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/downloads/{request}", get(download))
        .with_state(Shared { context, ready });
    tokio::select! {
        served = axum::serve(listener, router) => {
            if let Err(error) = served {
                tracing::error!(%error, "The metrics server ended");
            }
        }
        () = stop.cancelled() => {}
    }
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    let context = &shared.context;
    context.metrics.take_over_retries(context.objects.cluster(), context.locations.troubles());
    context.metrics.take_over_traces();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], context.metrics.text())
}

async fn readiness(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    let stopping = shared.context.stop.is_cancelled();
    let leadership = &shared.context.leadership;
    match shared.ready.load(Ordering::Acquire) && !stopping {
        true if !leadership.may_write() => (StatusCode::OK, "ok: another server leads or may lead, this one waits"),
        true if !leadership.begun().is_cancelled() => (StatusCode::OK, "ok: this server takes over"),
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    }
}

#[derive(Deserialize)]
struct DownloadQuery {
    #[serde(default)]
    token: String,
}

async fn download(
    State(shared): State<Shared>,
    Path(request): Path<String>,
    Query(query): Query<DownloadQuery>,
) -> Response {
    match download::open(&shared.context, &request, &query.token).await {
        Ok(Some(stream)) => {
            ([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(stream)).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, "no such download\n").into_response(),
        Err(error) => {
            tracing::error!(request, error = describe(&error), "A download failed");
            (StatusCode::BAD_GATEWAY, "the file could not be read from its store; the server's log says why\n")
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("downloads", read)]
    }

    /// What anybody can send to the port, up to where the API server is asked.
    fn read(bytes: &[u8]) {
        let Ok(uri) = String::from_utf8_lossy(bytes).parse::<http::Uri>() else { return };
        let Ok(Query(query)) = Query::<DownloadQuery>::try_from_uri(&uri) else { return };
        let name = uri.path().trim_start_matches("/downloads/");
        let admitted = download::can_be_asked_for(name, &query.token);
        assert!(!admitted || !name.contains(['/', '%', '?', '#', '\\']), "{name} leads elsewhere");
    }

    strike_all!(parsers);
}
