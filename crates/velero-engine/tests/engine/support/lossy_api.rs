//! A proxy before the real API server that loses answers or fails on command.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode, header};
use futures::stream;
use kube::{Client, Config};
use velero_cluster::Cluster;

/// What becomes of a chosen request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the server; the answer has this status.
    Refuse(u16),
    /// It reaches the server; the connection breaks before the answer is through.
    LoseAnswer,
}

/// Which writes are hit: those from one on, counted from zero, among those to paths that end like this.
#[derive(Clone, Debug)]
pub struct Plan {
    pub fault: Fault,
    pub path_ends: String,
    pub first: usize,
    pub count: usize,
}

/// A proxy, and how many writes of the plan's paths came by.
pub struct LossyApi {
    pub cluster: Cluster,
    pub writes: Arc<AtomicUsize>,
}

/// Starts a proxy; it lives as long as the runtime.
pub async fn start(upstream: Client, plan: Plan) -> LossyApi {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let serve = move |request: Request<Body>| {
        let (upstream, plan, counted) = (upstream.clone(), plan.clone(), Arc::clone(&counted));
        async move { pass(&upstream, &plan, &counted, request).await }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(serve)).await });
    let mut config = Config::new(url.parse().unwrap());
    // Nobody but the restore asks again.
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    LossyApi { cluster: Cluster::from_client(client), writes }
}

async fn pass(upstream: &Client, plan: &Plan, counted: &AtomicUsize, request: Request<Body>) -> Response<Body> {
    let is_write = request.method() != Method::GET && request.uri().path().ends_with(&plan.path_ends);
    let hit = is_write && {
        let place = counted.fetch_add(1, Ordering::SeqCst);
        (plan.first..plan.first + plan.count).contains(&place)
    };
    if let (true, Fault::Refuse(code)) = (hit, plan.fault) {
        let status = StatusCode::from_u16(code).unwrap();
        return Response::builder().status(status).body(Body::from("out of order")).unwrap();
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut sent = Request::builder().method(parts.method).uri(parts.uri.path_and_query().unwrap().as_str());
    for name in [header::ACCEPT, header::CONTENT_TYPE] {
        if let Some(value) = parts.headers.get(&name) {
            sent = sent.header(name, value);
        }
    }
    let answer = upstream.send(sent.body(kube::client::Body::from(body.to_vec())).unwrap()).await.unwrap();
    match hit {
        true => {
            let broken = stream::iter([Err::<Vec<u8>, _>(io::Error::other("lost"))]);
            Response::builder().status(answer.status()).body(Body::from_stream(broken)).unwrap()
        }
        false => {
            let mut answer = answer.map(Body::new);
            answer.headers_mut().remove(header::TRANSFER_ENCODING);
            answer
        }
    }
}
