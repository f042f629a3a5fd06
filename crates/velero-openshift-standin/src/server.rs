//! The listeners: TLS for the API server, plain HTTP for the registry, both on loopback.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::{get, post};
use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;

use crate::registry::Registry;
use crate::streams::Streams;
use crate::tls::TlsListener;
use crate::{discovery, events, pull_secrets, resources};

/// What the stand-in needs to know.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The port on loopback where the API server asks
    #[arg(long)]
    pub port: u16,
    /// The port on loopback where the registry tells of pushes, at /events
    #[arg(long)]
    pub events_port: u16,
    /// The file with the certificate
    #[arg(long)]
    pub certificate: PathBuf,
    /// The file with its key
    #[arg(long)]
    pub key: PathBuf,
    /// Host and port of the internal registry, as image streams name it; it speaks plain HTTP
    #[arg(long)]
    pub registry: String,
    /// The user it serves
    #[arg(long)]
    pub registry_user: String,
    /// The user's password
    #[arg(long)]
    pub registry_password: String,
    /// The file that says how the API server is reached, to make pull secrets
    #[arg(long)]
    pub kubeconfig: PathBuf,
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared {
    streams: Arc<Mutex<Streams>>,
    pub(crate) registry: Registry,
}

impl Shared {
    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until the process ends.
pub async fn serve(options: Options) -> Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut streams = Streams::new(&options.registry);
    // Every OpenShift comes with streams of its own; the first tells clients where the registry is.
    let _ = streams.create("openshift", json!({"metadata": {"name": "cli"}}));
    let registry = Registry::new(&options.registry, &options.registry_user, &options.registry_password);
    let shared = Shared { streams: Arc::new(Mutex::new(streams)), registry: registry.clone() };
    let listen = async |port: u16| {
        TcpListener::bind(("127.0.0.1", port)).await.with_context(|| format!("cannot listen on port {port}"))
    };
    let secure = TlsListener::new(listen(options.port).await?, &options.certificate, &options.key)?;
    let plain = listen(options.events_port).await?;
    let api = axum::serve(secure, api(shared.clone()));
    let events = axum::serve(plain, Router::new().route("/events", post(events::take)).with_state(shared));
    let serve = async { tokio::try_join!(async { api.await }, async { events.await }).context("cannot serve") };
    tokio::try_join!(serve, pull_secrets::keep(&options.kubeconfig, &registry))?;
    Ok(())
}

fn api(shared: Shared) -> Router {
    Router::new()
        .route("/apis/image.openshift.io/v1", get(discovery::types))
        .route("/apis/image.openshift.io/v1/{resource}", get(resources::list_all))
        .route(
            "/apis/image.openshift.io/v1/namespaces/{namespace}/{resource}",
            get(resources::list).post(resources::create).delete(resources::delete_all),
        )
        .route(
            "/apis/image.openshift.io/v1/namespaces/{namespace}/{resource}/{name}",
            get(resources::get).put(resources::replace).patch(resources::patch).delete(resources::delete),
        )
        .with_state(shared)
}
