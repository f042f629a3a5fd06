//! A way to the API server on which answers get lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use velero_testkit::TestCluster;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered.
    Answered,
    /// It is carried out, and nobody learns so.
    Swallowed,
    /// It never arrives.
    Lost,
}

type Rule = Arc<dyn Fn(&str, &str) -> Fate + Send + Sync>;

#[derive(Clone)]
struct Proxy {
    client: kube::Client,
    methods: &'static [Method],
    rule: Rule,
}

/// Opens a way to the API server on which a rule decides, from path and body, about every change of an object; gives the
/// kubeconfig for it. It lives as long as the runtime.
pub(crate) async fn open(
    cluster: &TestCluster,
    folder: &Path,
    rule: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
) -> PathBuf {
    open_for(cluster, folder, &[Method::PATCH, Method::PUT], rule).await
}

/// The same, where nobody learns of the first creation of an object of each of these types, and the second never arrives.
pub(crate) async fn open_without_creations(
    cluster: &TestCluster,
    folder: &Path,
    plurals: &'static [&'static str],
) -> (PathBuf, Arc<LostCreations>) {
    let lost = Arc::new(LostCreations { plurals, seen: plurals.iter().map(|_| AtomicUsize::new(0)).collect() });
    let rule = lost.clone();
    let kubeconfig = open_for(cluster, folder, &[Method::POST], move |path, _| rule.fate(path)).await;
    (kubeconfig, lost)
}

/// How many objects of some types somebody wanted to create.
pub(crate) struct LostCreations {
    plurals: &'static [&'static str],
    seen: Vec<AtomicUsize>,
}

impl LostCreations {
    fn fate(&self, path: &str) -> Fate {
        let path = path.split('?').next().unwrap_or_default();
        let is_of = |plural: &&str| path.rsplit('/').next() == Some(*plural);
        let Some(place) = self.plurals.iter().position(is_of) else { return Fate::Answered };
        match self.seen[place].fetch_add(1, Ordering::SeqCst) {
            0 => Fate::Swallowed,
            1 => Fate::Lost,
            _ => Fate::Answered,
        }
    }

    /// An answer was lost for each of the types.
    pub(crate) fn assert_all(&self) {
        for (plural, seen) in self.plurals.iter().zip(&self.seen) {
            assert!(seen.load(Ordering::SeqCst) > 0, "nobody made any {plural}");
        }
    }
}

/// The same, where the rule decides about all requests of a method.
pub(crate) async fn open_for(
    cluster: &TestCluster,
    folder: &Path,
    methods: &'static [Method],
    rule: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
) -> PathBuf {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = Proxy { client: cluster.client.clone(), methods, rule: Arc::new(rule) };
    let router = axum::Router::new().fallback(pass).with_state(proxy);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 16 << 20).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let fate = match proxy.methods.contains(&parts.method) {
        true => (proxy.rule)(&path, &String::from_utf8_lossy(&body)),
        false => Fate::Answered,
    };
    if fate == Fate::Lost {
        return StatusCode::GATEWAY_TIMEOUT.into_response();
    }
    let mut sent = http::Request::builder().method(parts.method).uri(path);
    for name in [http::header::ACCEPT, http::header::CONTENT_TYPE] {
        if let Some(value) = parts.headers.get(&name) {
            sent = sent.header(name, value);
        }
    }
    let sent = sent.body(kube::client::Body::from(body.to_vec())).unwrap();
    match proxy.client.send(sent).await {
        _ if fate == Fate::Swallowed => StatusCode::GATEWAY_TIMEOUT.into_response(),
        Ok(answer) => answer.map(Body::new).into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
