//! The page: what it gets from this server. It has no rights of its own, so it gets a connection without credentials, and
//! files, which it shows to those who may ask for their download. Only where a proxy is trusted it gets a connection with those of
//! the server, on which it acts for whom the proxy names.

use async_trait::async_trait;
use velero_api::v1::DownloadTarget;
use velero_cluster::{Cluster, ConnectOptions};
use velero_store::ByteStream;
pub(crate) use velero_web::serve;
use velero_web::{FileProblem, Files, Means, Tls, TlsProblem, TrustedProxy};

use crate::download::{self, FileOrNone};
use crate::runtime::context::SharedContext;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::settings::Settings;
use crate::runtime::web_settings::TrustedHeaders;

/// Requests a second for all who look at the page, so that they take nothing from backups.
const QPS: f32 = 100.0;
const BURST: u32 = 200;
/// How often a request is sent again: a person waits for the answer.
const RETRIES: u32 = 2;

/// The certificate of the page; none where it is not encrypted.
pub(crate) fn tls(settings: &Settings) -> Result<Option<Tls>> {
    let Some(files) = settings.web.tls_files() else { return Ok(None) };
    Tls::load(files).map(Some).map_err(|problem| {
        let flag = match &problem {
            TlsProblem::Certificate(_) => "web-tls-cert",
            TlsProblem::Key(_) => "web-tls-key",
            TlsProblem::ClientAuthority(_) => "web-client-ca",
        };
        Error::Setting { flag, problem: problem.to_string() }
    })
}

/// What the page needs of this server.
pub(crate) async fn means(context: &SharedContext) -> Result<Means> {
    let settings = &context.settings;
    let proxy = match settings.web.trusted_headers()? {
        None => None,
        Some(TrustedHeaders { user, groups }) => {
            let cluster = connect(settings, false).await?;
            Some(TrustedProxy { user_header: user, groups_header: groups, cluster })
        }
    };
    Ok(Means {
        anonymous: connect(settings, true).await?,
        own: context.objects.cluster().clone(),
        namespace: settings.namespace.clone(),
        version: settings.server_version.clone(),
        files: std::sync::Arc::new(ServerFiles { context: context.clone() }),
        proxy,
        stop: context.stop.clone(),
    })
}

/// A connection for those who look at the page.
async fn connect(settings: &Settings, without_credentials: bool) -> Result<Cluster> {
    let options = ConnectOptions {
        kubeconfig: settings.kubeconfig.clone(),
        context: settings.context.clone(),
        user_agent: Some(format!("velero-page/{}", settings.server_version)),
        qps: Some(QPS),
        burst: Some(BURST),
        retries: RETRIES,
        write_guard: None,
        without_credentials,
    };
    Ok(Cluster::connect(&options).await?)
}

/// The files that downloads hand out.
struct ServerFiles {
    context: SharedContext,
}

#[async_trait]
impl Files for ServerFiles {
    async fn open(&self, target: &DownloadTarget) -> Result<ByteStream, FileProblem> {
        match download::open_file(&self.context, target).await {
            Ok(FileOrNone::File(stream)) => Ok(stream),
            Ok(FileOrNone::None(reason)) => Err(FileProblem::None(reason)),
            Err(error) => Err(FileProblem::Away(describe(&error))),
        }
    }
}
