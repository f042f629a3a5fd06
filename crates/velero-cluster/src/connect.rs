//! Connecting: credentials, user agent, rate limit and retries.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue, Request};
use kube::client::{Body, ClientBuilder};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;
use tower::service_fn;
use tower::timeout::TimeoutLayer;
use velero_api::WriteGuard;

use crate::error::{Error, Result};
use crate::rate_limit::{RateLimitLayer, TokenBucket};
use crate::repeated::{Repeated, RetryCause};
use crate::request::LONGEST_SILENCE;
use crate::retry::RetryPolicy;
use crate::unanswered::Memory;
use crate::write_guard::{CheckLayer, WaitLayer};

/// Who is acted for.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");
/// How many requests may queue between two layers of the client.
const QUEUE: usize = 1024;

/// How to connect to a cluster.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Path of the kubeconfig file; by default `$KUBECONFIG`, then `~/.kube/config`, then the service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file; by default its current one.
    pub context: Option<String>,
    /// Value of the `User-Agent` header.
    pub user_agent: Option<String>,
    /// Requests a second after the burst; without it there is no fixed rate.
    pub qps: Option<f32>,
    /// Requests that may go out at once; by default one.
    pub burst: Option<u32>,
    /// How often a request that met passing trouble is sent again. The default suits a server; a command that a
    /// person waits for sets a small number.
    pub retries: u32,
    /// Asked before each request that changes something.
    pub write_guard: Option<WriteGuard>,
    /// Leaves all credentials out: who uses the connection brings those of its own with [`Cluster::with_token`].
    pub without_credentials: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            user_agent: None,
            qps: None,
            burst: None,
            retries: 8,
            write_guard: None,
            without_credentials: false,
        }
    }
}

/// A connected cluster. Cheap to clone; clones share connections, the rate limit and what was once discovered.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    refusals_for_load: Arc<AtomicU64>,
    repeated: Arc<Repeated>,
    memory: Arc<Memory>,
}

impl Cluster {
    /// Connects with the given options. Nothing is sent yet: a server that is down shows with the first request.
    pub async fn connect(options: &ConnectOptions) -> Result<Self> {
        let mut config = load_config(options).await?;
        let is_near = is_near(&config);
        if options.without_credentials {
            config.auth_info = AuthInfo::default();
        }
        if let Some(user_agent) = &options.user_agent {
            let value = HeaderValue::from_str(user_agent).map_err(|_| Error::Configuration {
                message: format!("user agent {user_agent:?} holds characters that a header cannot carry"),
            })?;
            config.headers.push((USER_AGENT, value));
        }
        // Our own policy replaces the built-in one, which also repeats writes that may have been carried out.
        config.default_retry = false;
        config.disable_compression |= is_near;
        let refusals_for_load = Arc::new(AtomicU64::new(0));
        let repeated = Arc::<Repeated>::default();
        let policy = RetryPolicy::new(options.retries, Arc::clone(&refusals_for_load), Arc::clone(&repeated));
        let bucket = options.qps.and_then(|qps| TokenBucket::new(qps, options.burst));
        let builder = ClientBuilder::try_from(config)
            .map_err(|error| Error::Configuration { message: error.to_string() })?
            .with_layer(&CheckLayer(options.write_guard.clone()))
            .with_layer(&TimeoutLayer::new(LONGEST_SILENCE))
            .with_layer(&BufferLayer::new(QUEUE))
            .with_layer(&WaitLayer(options.write_guard.clone()))
            .with_layer(&RateLimitLayer(bucket.map(Arc::new)))
            .with_layer(&RetryLayer::new(policy));
        Ok(Self { client: builder.build(), refusals_for_load, repeated, memory: Arc::default() })
    }

    /// Uses a client that was made elsewhere.
    pub fn from_client(client: Client) -> Self {
        Self { client, refusals_for_load: Arc::default(), repeated: Arc::default(), memory: Arc::default() }
    }

    /// The same connections, used as somebody else: whoever this bearer token belongs to.
    pub fn with_token(&self, token: &str) -> Result<Self> {
        let mut value = header_value("the token", &format!("Bearer {token}"))?;
        value.set_sensitive(true);
        Ok(self.with_headers(vec![(AUTHORIZATION, value)]))
    }

    /// The same connections, used for somebody else, who is named: the owner of the connections must have the right to impersonate
    /// that user and these groups.
    pub fn with_impersonation(&self, user: &str, groups: &[String]) -> Result<Self> {
        if user.is_empty() {
            // Without the header the owner of the connections would act for itself.
            return Err(Error::Configuration { message: "nobody is named to act for".to_owned() });
        }
        let mut headers = vec![(IMPERSONATE_USER, header_value("the user", user)?)];
        for group in groups {
            headers.push((IMPERSONATE_GROUP, header_value("a group", group)?));
        }
        Ok(self.with_headers(headers))
    }

    fn with_headers(&self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        let (client, headers) = (self.client.clone(), Arc::new(headers));
        let service = service_fn(move |mut request: Request<Body>| {
            for (name, _) in headers.iter() {
                request.headers_mut().remove(name);
            }
            for (name, value) in headers.iter() {
                request.headers_mut().append(name.clone(), value.clone());
            }
            let client = client.clone();
            async move { client.send(request).await }
        });
        let client = Client::new(service, self.client.default_namespace());
        let (refusals_for_load, repeated) = (Arc::clone(&self.refusals_for_load), Arc::clone(&self.repeated));
        Self { client, refusals_for_load, repeated, memory: Arc::default() }
    }

    /// The client, for typed access and controllers.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How often the server has asked for fewer requests (status 429) so far.
    pub fn refusals_for_load(&self) -> u64 {
        self.refusals_for_load.load(Ordering::Relaxed)
    }

    /// How often requests were sent again for that cause so far.
    pub fn repeated(&self, cause: RetryCause) -> u64 {
        self.repeated.of(cause)
    }

    /// What the groups of the server were seen to serve.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The namespace of the context or of the service account; `default` when neither says.
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The version of the API server.
    pub async fn server_version(&self) -> Result<ServerVersion> {
        let version = self.client.apiserver_version().await;
        let version = version.map_err(|error| Error::from_kube("get the server version", error))?;
        Ok(ServerVersion { major: version.major, minor: version.minor, whole: version.git_version })
    }
}

/// The version of an API server, as it tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// The major version.
    pub major: String,
    /// The minor version; OpenShift marks it with a plus.
    pub minor: String,
    /// All of it, for example `v1.35.4`.
    pub whole: String,
}

/// Installs the TLS provider for the whole process. To be called first thing in `main`; may be called again.
pub fn install_crypto_provider() {
    // The only failure is that a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn header_value(what: &str, text: &str) -> Result<HeaderValue> {
    let unfit = |_| Error::Configuration { message: format!("{what} holds characters that a header cannot carry") };
    HeaderValue::from_str(text).map_err(unfit)
}

async fn load_config(options: &ConnectOptions) -> Result<Config> {
    let selection = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let failed = |error: &dyn std::error::Error| Error::Configuration { message: error.to_string() };
    match (&options.kubeconfig, &options.context) {
        (Some(path), _) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &selection).await.map_err(|error| failed(&error))
        }
        (None, Some(_)) => Config::from_kubeconfig(&selection).await.map_err(|error| failed(&error)),
        (None, None) => Config::infer().await.map_err(|error| failed(&error)),
    }
}

/// Whether the server is so near that compressing costs more than it saves: in the same cluster or on this machine.
fn is_near(config: &Config) -> bool {
    let in_cluster = config.auth_info.token_file.is_some() && config.root_cert_file.is_some();
    let host = config.cluster_url.host().unwrap_or_default();
    in_cluster || matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_server_is_asked_not_to_compress() {
        for (url, near) in [
            ("https://127.0.0.1:6443", true),
            ("https://localhost:6443", true),
            ("https://[::1]:6443", true),
            ("https://cluster.example.com", false),
            ("https://10.0.0.1:443", false),
        ] {
            assert_eq!(is_near(&Config::new(url.parse().unwrap())), near, "{url}");
        }
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let options = ConnectOptions { kubeconfig: Some("/nowhere/kubeconfig".into()), ..ConnectOptions::default() };
        let error = Cluster::connect(&options).await.err().unwrap().to_string();
        assert!(error.contains("/nowhere/kubeconfig"), "{error}");
    }
}
