//! The agent's HTTP side: metrics and health.

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use tokio::net::TcpListener;

use crate::node_agent::agent::SharedAgent;

/// Serves until the process is to end.
pub(crate) async fn serve(listener: TcpListener, agent: SharedAgent) {
    let stop = agent.stop.clone();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }))
        .with_state(agent);
    tokio::select! {
        served = axum::serve(listener, router) => {
            if let Err(error) = served {
                tracing::error!(%error, "The metrics server ended");
            }
        }
        () = stop.cancelled() => {}
    }
}

async fn metrics(State(agent): State<SharedAgent>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], agent.metrics.text())
}
