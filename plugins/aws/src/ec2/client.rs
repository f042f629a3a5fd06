//! Sends requests: signs them, asks again while that may help, and ends in time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use http::Method;
use http::header::CONTENT_TYPE;
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpErrorKind, HttpRequest, HttpRequestBody, ReqwestConnector};
use serde::de::DeserializeOwned;
use velero_plugin::sdk::{aws_credentials, with_causes};
use velero_plugin::{Error as PluginError, Result as PluginResult};

use super::{Error, Query, Trouble};
use crate::settings::Settings;

/// How long a connection may take to open, and one answer to come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const SERVICE: &str = "ec2";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// When a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Also when it may have been done: doing it twice does no harm.
    Freely,
    /// Only when it has not been begun.
    UnlessBegun,
}

/// EC2 in one region, as one account.
pub(crate) struct Client {
    settings: Settings,
    config: BTreeMap<String, String>,
    http: HttpClient,
    credentials: RwLock<AwsCredentialProvider>,
}

impl Client {
    /// A client for a location. Nothing is asked yet.
    pub(crate) async fn new(settings: Settings, config: &BTreeMap<String, String>) -> PluginResult<Self> {
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(ANSWER_TIMEOUT);
        let http = ReqwestConnector::default().connect(&options);
        let http = http.map_err(|error| PluginError::Failed(format!("no HTTP client can be made: {error}")))?;
        let credentials = RwLock::new(account(config, &settings.region).await?);
        Ok(Self { settings, config: config.clone(), http, credentials })
    }

    /// The settings of the location.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks, and asks again for as long as the patience lasts.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        query: &Query,
        repeat: Repeat,
        patience: Duration,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(Duration::from_secs(10))
            .with_jitter()
            .without_max_times()
            .build();
        let mut has_renewed = false;
        loop {
            let (trouble, problem) = match self.ask(query).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let pause = pauses.next().unwrap_or_default();
            let may_help = match trouble {
                Trouble::NotBegun => true,
                Trouble::Unclear => repeat == Repeat::Freely,
                Trouble::Credentials => !std::mem::replace(&mut has_renewed, true) && self.renew_credentials().await,
                Trouble::NotFound | Trouble::Forbidden | Trouble::Refused => false,
            };
            if !may_help || begin.elapsed() + pause > patience {
                let (object, waited) = (query.object.clone(), begin.elapsed());
                return Err(Error { action: query.action, object, problem, trouble, waited });
            }
            tracing::debug!(action = query.action, object = query.object, problem, "Asking EC2 again");
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask<T: DeserializeOwned>(&self, query: &Query) -> Result<T, (Trouble, String)> {
        let request = self.signed(query).await?;
        let answer = self.http.execute(request).await.map_err(|error| {
            let trouble = match error.kind() {
                HttpErrorKind::Connect => Trouble::NotBegun,
                _ => Trouble::Unclear,
            };
            (trouble, format!("{}: {}", self.settings.address, with_causes(&error)))
        })?;
        let status = answer.status();
        let unclear = |error: &dyn std::error::Error| (Trouble::Unclear, with_causes(error));
        let body = answer.into_body().bytes().await.map_err(|error| unclear(&error))?;
        let body = String::from_utf8_lossy(&body);
        if !status.is_success() {
            return Err(Trouble::of_answer(status.as_u16(), &body));
        }
        quick_xml::de::from_str(&body).map_err(|error| unclear(&error))
    }

    async fn signed(&self, query: &Query) -> Result<HttpRequest, (Trouble, String)> {
        let provider = Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner));
        let without = |error: object_store::Error| {
            (Trouble::Credentials, format!("there are no credentials: {}", with_causes(&error)))
        };
        let credential = provider.get_credential().await.map_err(without)?;
        let refused = |error: &dyn std::error::Error| (Trouble::Refused, with_causes(error));
        let mut request = http::Request::builder()
            .method(Method::POST)
            .uri(&self.settings.address)
            .header(CONTENT_TYPE, FORM)
            .body(HttpRequestBody::from(query.form()))
            .map_err(|error| refused(&error))?;
        let authorizer = AwsAuthorizer::new(&credential, SERVICE, &self.settings.region);
        authorizer.try_authorize(&mut request, None).map_err(|error| refused(&error))?;
        Ok(request)
    }

    /// Reads the credentials again, for those that have expired may have been replaced; says whether they were.
    async fn renew_credentials(&self) -> bool {
        let Ok(renewed) = account(&self.config, &self.settings.region).await else { return false };
        let current = Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner));
        let (before, after) = (current.get_credential().await.ok(), renewed.get_credential().await.ok());
        let is_other = after.is_some() && before != after;
        if is_other {
            *self.credentials.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        }
        is_other
    }
}

async fn account(config: &BTreeMap<String, String>, region: &str) -> PluginResult<AwsCredentialProvider> {
    aws_credentials(config, region).await.map_err(|error| PluginError::Failed(error.to_string()))
}
