//! Fetching files of backups and restores from the object store.
//!
//! The server is asked for an address; the file is fetched from there. When the store cannot be reached from this
//! machine, or somebody else answers at its address, the server hands the file out itself, through the proxy of the API
//! server.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::{Stream, StreamExt, TryStreamExt};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use velero_api::metadata;
use velero_api::v1::{DownloadRequest, DownloadRequestPhase, DownloadRequestSpec, DownloadTarget, DownloadTargetKind};
use velero_cluster::ProxyTarget;
use velero_controllers::{DOWNLOAD_TOKEN_ANNOTATION, SERVER_URL_SCHEME};
use velero_store::blocking_reader;

use crate::alive::{fail_if_gone, last_heard_of};
use crate::arguments::DownloadArguments;
use crate::output::Heard;
use crate::output::describe::{FetchError, Fetched};
use crate::printer::write_error;
use crate::session::{Session, api_error};

mod certificates;

pub(crate) use certificates::location_of_restore;

/// How long one file of a description may take.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon the server's answer is looked for; then less and less often, up to [`LONGEST_POLL`].
const POLL: Duration = Duration::from_millis(25);
/// The longest pause between two looks for the server's answer.
const LONGEST_POLL: Duration = Duration::from_millis(500);
/// How long the server may be silent before it is looked whether there is one.
const SILENT_SERVER: Duration = Duration::from_secs(3);
/// A server that was not heard of for so long will not answer, nor one that takes over from it.
const GONE: SignedDuration = SignedDuration::from_secs(20);
/// A store that cannot be connected to by then is out of reach.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a download may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// The port on which the server hands out files.
const SERVER_PORT: u16 = 8085;
/// What the API server answers to those who may not ask.
const FORBIDDEN: u16 = 403;
/// What is said when the server does not answer.
const NO_ADDRESS: &str = "download request download url timeout, check velero server logs for errors. backup storage location may not be available";

/// Why a download failed.
#[derive(Debug)]
pub(crate) enum DownloadError {
    /// The store does not have the file.
    NotFound,
    /// Something else.
    Failed(Error),
}

impl DownloadError {
    /// The same for who asked for the log of a backup or restore, whose phase and reason say why there is none.
    pub(crate) fn of_log(self, what: &str, phase: &str, reason: &str) -> Error {
        match self {
            Self::NotFound => {
                let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                anyhow!(
                    "{what} has no log in its location: it is {phase}{reason}. One that failed before its first file could be \
                     stored has none; the log of the server says more: kubectl logs deployment/velero"
                )
            }
            Self::Failed(error) => error,
        }
    }
}

impl From<Error> for DownloadError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<DownloadError> for Error {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::NotFound => anyhow!("file not found"),
            DownloadError::Failed(error) => error,
        }
    }
}

type Body = std::pin::Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

/// Fetches files for one backup or restore.
pub(crate) struct Downloader<'a> {
    session: &'a Session,
    client: reqwest::Client,
    /// Set once the store turned out to be out of reach, so that the next file does not try it again.
    store_out_of_reach: AtomicBool,
    /// What the server was asked for.
    requests: Mutex<Vec<String>>,
    /// When the server was last heard of, looked up once it did not answer.
    heard: OnceCell<Option<Heard>>,
}

impl<'a> Downloader<'a> {
    /// Prepares for files of this location, trusting the certificates of the flags, the configuration file or the
    /// location.
    pub(crate) async fn new(session: &'a Session, arguments: &DownloadArguments, location: &str) -> Result<Self> {
        let file: Option<PathBuf> = arguments.cacert.clone().or_else(|| session.settings.cacert.clone());
        let mut builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(SILENCE);
        if arguments.insecure_skip_tls_verify {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let bundle = certificates::bundle(session, file, location).await?;
        if !bundle.is_empty() {
            builder = builder.tls_certs_merge(bundle);
        }
        let client = builder.build().context("cannot set up the connection to the object store")?;
        Ok(Self {
            session,
            client,
            store_out_of_reach: AtomicBool::new(false),
            requests: Mutex::default(),
            heard: OnceCell::new(),
        })
    }

    /// A file as it is stored, to be read by blocking code while it arrives.
    pub(crate) async fn reader(
        &self,
        kind: DownloadTargetKind,
        name: &str,
        timeout: Duration,
    ) -> Result<impl Read + Send + 'static, DownloadError> {
        let body = self.open(kind, name, timeout).await?;
        let pieces = body.map(|piece| piece.map(Bytes::from).map_err(|error| io::Error::other(format!("{error:#}"))));
        Ok(blocking_reader(pieces.boxed()))
    }

    /// Removes what the server was asked for; it would do so itself after a while.
    pub(crate) async fn remove_requests(self) {
        let requests = self.requests.into_inner().unwrap_or_else(PoisonError::into_inner);
        for request in requests {
            // What is left expires.
            let _ = self.session.delete::<DownloadRequest>(&request).await;
        }
    }

    /// Writes a file; all but the archive are decompressed. The timeout covers the time until the file begins.
    pub(crate) async fn stream(
        &self,
        kind: DownloadTargetKind,
        name: &str,
        timeout: Duration,
        output: &mut (impl Write + Send),
    ) -> Result<(), DownloadError> {
        let compressed = kind != DownloadTargetKind::BackupContents;
        let mut body = self.open(kind, name, timeout).await?;
        let mut decoder = MultiGzDecoder::new(output);
        while let Some(piece) = body.try_next().await? {
            let written = if compressed { decoder.write_all(&piece) } else { decoder.get_mut().write_all(&piece) };
            written.map_err(|error| write_error(error, "cannot write the file"))?;
        }
        if compressed {
            decoder.finish().map_err(|error| write_error(error, "the file ends too early"))?;
        }
        Ok(())
    }

    /// Reads a JSON file for a description.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, kind: DownloadTargetKind, name: &str) -> Fetched<T> {
        let mut bytes = Vec::new();
        match self.stream(kind, name, DESCRIPTION_TIMEOUT, &mut bytes).await {
            Ok(()) => serde_json::from_slice(&bytes).map_err(|error| FetchError::Unreadable(error.to_string())),
            Err(DownloadError::NotFound) => Err(FetchError::NotFound),
            Err(DownloadError::Failed(error)) => Err(FetchError::Failed(format!("{error:#}"))),
        }
    }

    async fn open(&self, kind: DownloadTargetKind, name: &str, patience: Duration) -> Result<Body, DownloadError> {
        let deadline = Instant::now() + patience;
        let request = self.request(kind, name, deadline).await?;
        let url = &request.status.download_url;
        let known = self.store_out_of_reach.load(Ordering::Relaxed) && token(&request).is_some();
        if known || url.starts_with(SERVER_URL_SCHEME) {
            return self.open_at_server(&request, patience).await;
        }
        let answer = timeout_at(deadline, self.client.get(url).send()).await;
        let unreachable = match answer {
            Ok(Ok(response)) => match body_of(response).await {
                Err(refusal) if token(&request).is_some() => return self.ask_again(&request, refusal, patience).await,
                answered => return answered,
            },
            Ok(Err(error)) => Error::new(error.without_url()),
            Err(_) => anyhow!("the object store did not answer within {patience:?}"),
        };
        let reason = unreachable.context("cannot reach the object store; --cacert names a certificate bundle to trust");
        // Only a server that knows this way out leaves a token.
        if token(&request).is_none() {
            return Err(reason.into());
        }
        self.leave_store(&reason);
        self.open_at_server(&request, patience).await
    }

    /// What answers at the address refused the file. It may be another host than the server's store: the server knows. If
    /// the server cannot be asked, the refusal stands.
    async fn ask_again(
        &self,
        request: &DownloadRequest,
        refusal: DownloadError,
        patience: Duration,
    ) -> Result<Body, DownloadError> {
        match self.open_at_server(request, patience).await {
            Ok(body) => {
                self.leave_store(&Error::from(refusal).context("the object store refused the file"));
                Ok(body)
            }
            Err(DownloadError::NotFound) => Err(DownloadError::NotFound),
            Err(DownloadError::Failed(_)) => Err(refusal),
        }
    }

    /// From now on files come from the server.
    fn leave_store(&self, reason: &Error) {
        // Files that are fetched at the same time find out at the same time; it is said once.
        if !self.store_out_of_reach.swap(true, Ordering::Relaxed) {
            self.session.printer.note(format_args!("{reason:#}; fetching the file through the Kubernetes API server"));
        }
    }

    /// Asks the server for the address of a file and waits for it.
    async fn request(&self, kind: DownloadTargetKind, name: &str, deadline: Instant) -> Result<DownloadRequest> {
        // One file after the other would be waited for in vain.
        self.fail_if_gone()?;
        let target = DownloadTarget { kind, name: name.to_owned(), ..DownloadTarget::default() };
        let spec = DownloadRequestSpec { target, ..DownloadRequestSpec::default() };
        let request_name = format!("{name}-{}", uuid::Uuid::new_v4());
        let wish = DownloadRequest::new(self.session.namespace(), &request_name, spec);
        self.session.api().create(&PostParams::default(), &wish).await.map_err(refusal)?;
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request_name.clone());
        let silent = Instant::now() + SILENT_SERVER;
        let mut pause = POLL;
        while Instant::now() < deadline {
            if Instant::now() > silent {
                let look = || async { last_heard_of(self.session, SILENT_SERVER).await.ok().flatten() };
                self.heard.get_or_init(look).await;
                self.fail_if_gone()?;
            }
            sleep(pause).await;
            pause = (pause * 5 / 4).min(LONGEST_POLL);
            let request: DownloadRequest = self.session.get(&request_name).await?;
            if !request.status.download_url.is_empty() {
                return Ok(request);
            }
            if *request.status.phase() == DownloadRequestPhase::Failed {
                return Err(anyhow!("the server cannot hand out the file: {}", request.status.message));
            }
        }
        Err(anyhow!(NO_ADDRESS))
    }

    /// Fails when it is known that the server is gone, and has been for so long that no other one will take over.
    fn fail_if_gone(&self) -> Result<()> {
        let heard = self.heard.get().and_then(Option::as_ref).filter(|heard| heard.ago > GONE);
        fail_if_gone(self.session, heard).context("files are handed out by the server")
    }

    /// Fetches a file from the server's own port, through the API server.
    async fn open_at_server(&self, request: &DownloadRequest, patience: Duration) -> Result<Body, DownloadError> {
        let name = metadata::name(request);
        let token = token(request)
            .ok_or_else(|| anyhow!("download request {name} has no token, is the server of another version?"))?;
        let target = ProxyTarget::Pod {
            namespace: self.session.namespace().to_owned(),
            name: self.server_pod().await?,
            port: SERVER_PORT,
        };
        let path = format!("/downloads/{name}?token={token}");
        let answer = timeout(patience, self.session.cluster.proxy_get(&target, &path)).await;
        let answer = answer.map_err(|_| anyhow!("the Velero server did not hand out the file within {patience:?}"))?;
        match answer {
            Ok(body) => Ok(Box::pin(body.map(|piece| Ok(piece?.to_vec())))),
            Err(velero_cluster::Error::NotFound(_)) => Err(DownloadError::NotFound),
            Err(error) => {
                Err(Error::new(error).context("cannot fetch the file through the Kubernetes API server").into())
            }
        }
    }

    async fn server_pod(&self) -> Result<String> {
        let namespace = self.session.namespace();
        let pods: Api<Pod> = Api::namespaced(self.session.cluster.client().clone(), namespace);
        let found = pods.list(&ListParams::default().labels("deploy=velero")).await.map_err(api_error)?;
        let pod = found.items.into_iter().find(serves).and_then(|pod| pod.metadata.name);
        pod.ok_or_else(|| anyhow!("no running Velero server in namespace {namespace}: no pod with label deploy=velero"))
    }
}

/// Whether a pod runs and is to go on running.
fn serves(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}

/// Why the server was not asked. Who may not ask is told what for: reading backups is one right, reading their files another.
fn refusal(error: kube::Error) -> Error {
    let is_forbidden = matches!(&error, kube::Error::Api(status) if status.code == FORBIDDEN);
    let error = api_error(error);
    match is_forbidden {
        true => error.context(
            "files of backups and restores are handed out to those who may create and get downloadrequests.velero.io; ask for \
             that right",
        ),
        false => error,
    }
}

fn token(request: &DownloadRequest) -> Option<&str> {
    request.metadata.annotations.as_ref()?.get(DOWNLOAD_TOKEN_ANNOTATION).map(String::as_str)
}

async fn body_of(response: reqwest::Response) -> Result<Body, DownloadError> {
    match response.status() {
        status if status.is_success() => {}
        reqwest::StatusCode::NOT_FOUND => return Err(DownloadError::NotFound),
        status => {
            let text = response.text().await.context("request failed: unable to decode response body")?;
            return Err(anyhow!("request failed: {status}: {text}").into());
        }
    }
    let pieces = response.bytes_stream();
    Ok(Box::pin(
        pieces.map(|piece| Ok(piece.map_err(|error| error.without_url()).context("the download broke off")?.to_vec())),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_log_that_is_not_there_is_told_how_the_backup_ended() {
        let said = DownloadError::NotFound.of_log("backup \"b\"", "Failed", "the server was stopped").to_string();
        assert!(
            said.starts_with("backup \"b\" has no log in its location: it is Failed (the server was stopped)."),
            "{said}"
        );
        let said = DownloadError::NotFound.of_log("restore \"r\"", "Completed", "").to_string();
        assert!(said.contains("it is Completed. "), "{said}");
        let failed = DownloadError::Failed(anyhow!("no way to the store"));
        assert_eq!(failed.of_log("backup \"b\"", "Failed", "x").to_string(), "no way to the store");
    }
}
