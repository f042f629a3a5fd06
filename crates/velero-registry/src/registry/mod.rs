//! A registry: one connection pool, one scheme, its tokens.

mod authorization;
mod challenge;
mod image;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use tokio::sync::OnceCell;

use authorization::Authorization;
pub use image::Image;
pub(crate) use image::Upload;

use crate::{Access, Problem, Reference};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer may take that carries no blob.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the explanation of an error is waited for.
const EXPLANATION_TIMEOUT: Duration = Duration::from_secs(5);
const MOST_REDIRECTS: usize = 10;
/// How much of an error's explanation is read.
const LONGEST_MESSAGE: usize = 4 << 10;

/// A container registry. Clones share connections and tokens.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    host: String,
    access: Access,
    client: Client,
    address: OnceCell<Url>,
    authorization: Authorization,
}

impl Registry {
    /// A registry at that host, with its port if it has one; nothing is sent yet.
    pub fn new(host: &str, access: Access) -> Result<Self, Problem> {
        let client = client(host, &access)?;
        let authorization = Authorization::new(access.credentials.clone());
        Ok(Self(Arc::new(Inner { host: host.to_owned(), access, client, address: OnceCell::new(), authorization })))
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// An image of this registry.
    pub fn image(&self, reference: &Reference) -> Result<Image, Problem> {
        if reference.registry() != self.host() {
            let reason = format!("it is not in the registry {}", self.host());
            return Err(Problem::InvalidReference { reference: reference.to_string(), reason });
        }
        Ok(Image::new(self.clone(), reference.clone()))
    }

    /// Whether both reach the same repositories.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.host() == other.host()
    }

    /// The address of an endpoint under `/v2/`.
    pub(crate) async fn url(&self, path: &str) -> Result<Url, Problem> {
        let address = self.0.address.get_or_try_init(|| self.find()).await?;
        self.parse(address.join(path), path)
    }

    /// Sends a request, again with fresh authorization where the registry asks for it.
    pub(crate) async fn send(
        &self,
        scope: &str,
        action: &str,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Response, Problem> {
        let mut first = true;
        loop {
            let authorization = self.0.authorization.header(self, scope).await?;
            let authorized = authorization.is_some();
            let sent = self.send_as(authorization, action, request(&self.0.client));
            let response = self.in_time(ANSWER_TIMEOUT, action, sent).await?;
            let again = first
                && response.status() == StatusCode::UNAUTHORIZED
                && self.0.authorization.learn(response.headers(), scope, authorized).await;
            if !again {
                return Ok(response);
            }
            first = false;
        }
    }

    /// Sends a request whose body cannot be sent twice, without a limit of time.
    pub(crate) async fn send_once(
        &self,
        scope: &str,
        action: &str,
        url: Url,
        request: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<Response, Problem> {
        // A registry may send us elsewhere, and only the registry itself may see who we are.
        let own = self.0.address.get().is_some_and(|address| address.origin() == url.origin());
        let authorization = if own { self.0.authorization.header(self, scope).await? } else { None };
        let response = self.send_as(authorization, action, request(&self.0.client, url)).await?;
        if own && response.status() == StatusCode::UNAUTHORIZED {
            self.0.authorization.learn(response.headers(), scope, true).await;
        }
        Ok(response)
    }

    async fn send_as(
        &self,
        authorization: Option<String>,
        action: &str,
        request: RequestBuilder,
    ) -> Result<Response, Problem> {
        let request = match authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        };
        request.send().await.map_err(|error| Problem::of_request(self.host(), action, &error))
    }

    /// Gives up what stands still.
    pub(crate) async fn in_time<T>(
        &self,
        limit: Duration,
        action: &str,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let reason = format!("nothing happened for {} s", limit.as_secs_f64());
            Err(Problem::Interrupted { registry: self.host().to_owned(), action: action.to_owned(), reason })
        })
    }

    /// Says what an unexpected answer means.
    pub(crate) async fn problem(&self, action: &str, response: Response) -> Problem {
        let (registry, action, status) = (self.host().to_owned(), action.to_owned(), response.status());
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let message = tokio::time::timeout(EXPLANATION_TIMEOUT, explanation(response)).await.unwrap_or_default();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Problem::Denied { registry, action, status, message },
            _ => Problem::Refused {
                registry,
                action,
                status,
                message,
                retry_after: retry_after.map(Duration::from_secs),
            },
        }
    }

    /// An address the registry gave us, which may be relative to `base`.
    pub(crate) fn follow(&self, base: &Url, location: &str) -> Result<Url, Problem> {
        let url = self.parse(base.join(location), location)?;
        if url.scheme() != "https" && !self.0.access.plain_http {
            return Err(self.plain_http(&url));
        }
        Ok(url)
    }

    /// Finds out how the registry is spoken to: over TLS, or plainly where that is allowed.
    async fn find(&self) -> Result<Url, Problem> {
        let secure = self.greet("https").await;
        let answered = matches!(secure, Ok(_) | Err(Problem::Denied { .. } | Problem::Refused { .. }));
        if !answered
            && self.0.access.plain_http
            && let Ok(address) = self.greet("http").await
        {
            return Ok(address);
        }
        secure
    }

    async fn greet(&self, scheme: &str) -> Result<Url, Problem> {
        let host = if self.host() == "docker.io" { "registry-1.docker.io" } else { self.host() };
        let text = format!("{scheme}://{host}/v2/");
        let address = self.parse(Url::parse(&text), &text)?;
        let action = "speak the registry protocol";
        let response = self.send_as(None, action, self.0.client.get(address.clone()).timeout(ANSWER_TIMEOUT)).await?;
        match response.status() {
            StatusCode::OK => Ok(address),
            StatusCode::UNAUTHORIZED => {
                self.0.authorization.learn(response.headers(), "", false).await;
                Ok(address)
            }
            _ => Err(self.problem(action, response).await),
        }
    }

    fn parse<E: ToString>(&self, url: Result<Url, E>, text: &str) -> Result<Url, Problem> {
        url.map_err(|error| Problem::InvalidSetting {
            what: format!("the address {text:?} of registry {}", self.host()),
            reason: error.to_string(),
        })
    }

    fn plain_http(&self, url: &Url) -> Problem {
        Problem::InvalidSetting {
            what: format!("registry {}", self.host()),
            reason: format!("it leads to {}://{}, and plain HTTP is not allowed", url.scheme(), url.authority()),
        }
    }
}

fn client(host: &str, access: &Access) -> Result<Client, Problem> {
    let invalid = |what: String, error: &reqwest::Error| Problem::InvalidSetting { what, reason: error.to_string() };
    let plain_http = access.plain_http;
    let redirects = Policy::custom(move |attempt| {
        if attempt.url().scheme() != "https" && !plain_http {
            attempt.error("it leads to plain HTTP, which is not allowed")
        } else if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("it leads in circles")
        } else {
            attempt.follow()
        }
    });
    // One connection a blob: streams that share one would wait for each other.
    let mut client = Client::builder()
        .user_agent(concat!("velero/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .no_gzip()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirects)
        .tls_danger_accept_invalid_certs(access.insecure_tls);
    if let Some(authorities) = &access.certificate_authorities {
        let authorities = Certificate::from_pem_bundle(authorities.as_bytes())
            .map_err(|error| invalid(format!("the certificate authority of registry {host}"), &error))?;
        client = client.tls_certs_merge(authorities);
    }
    client.build().map_err(|error| invalid(format!("the settings of registry {host}"), &error))
}

/// What a registry says about an error: the codes and messages of its answer, where it has any.
async fn explanation(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < LONGEST_MESSAGE
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    let errors = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
    let text = |error: &serde_json::Value, key: &str| error[key].as_str().unwrap_or_default().to_owned();
    let errors: Vec<String> = errors["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|error| format!("{}: {}", text(error, "code"), text(error, "message")))
        .collect();
    if errors.is_empty() { String::new() } else { format!(" ({})", errors.join(", ")) }
}
