//! Answers DownloadRequests with a URL, and hands files out through the server itself.
//!
//! Not every store has URLs, and not everybody reaches the store. So each request also gets a random token, and
//! whoever may read the request may fetch the file from the server with it, for example through the API server's
//! proxy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::GoDuration;
use velero_api::metadata::name;
use velero_api::v1::{
    Backup, BackupStorageLocation, DownloadRequest, DownloadRequestPhase, DownloadTarget, DownloadTargetKind, Restore,
};
use velero_rules::download::{no_files, unknown_target};
use velero_store::{BackupStore, ByteStream, DOWNLOAD_URL_LIFETIME, Error as StoreError};

use crate::lifecycle::files::{Files, Work};
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::{Error, Result};

/// The annotation with the token for a download through the server.
pub const DOWNLOAD_TOKEN_ANNOTATION: &str = "velero.io/download-token";

/// The longest name of an object.
const LONGEST_NAME: usize = 253;
/// How many hexadecimal digits a token has.
const TOKEN_LENGTH: usize = 32;

/// The scheme of a URL that only the server can serve.
pub const SERVER_URL_SCHEME: &str = "velero-server:";

/// Watches DownloadRequests.
pub(crate) struct DownloadRequestReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for DownloadRequestReconciler {
    type Kind = DownloadRequest;
    const CONTROLLER: Controller = Controller::DownloadRequest;
    const CONCURRENCY: u16 = 4;

    async fn reconcile(&self, request: DownloadRequest) -> Result<Next> {
        let now = clock::now();
        let expiration = request.status.expiration.as_ref().map(|time| time.0);
        if expiration.is_some_and(|expiration| expiration < now) {
            self.context.objects.delete(&request).await?;
            return Ok(Next::Change);
        }
        if matches!(request.status.phase(), DownloadRequestPhase::Processed | DownloadRequestPhase::Failed) {
            let left = expiration.map_or(DOWNLOAD_URL_LIFETIME, |expiration| clock::until(expiration, now));
            return Ok(Next::After(left + std::time::Duration::from_secs(1)));
        }
        // A server that ends leaves it to the next.
        let processing = process(&self.context, request);
        self.context.unless_stopped(processing).await.unwrap_or(Ok(()))?;
        Ok(Next::After(DOWNLOAD_URL_LIFETIME + std::time::Duration::from_secs(1)))
    }
}

/// Why a request has no answer.
enum NoAnswer {
    /// There will never be one, for this reason.
    Never(String),
    /// Another try may help.
    NotNow(Error),
}

impl<E: Into<Error>> From<E> for NoAnswer {
    fn from(error: E) -> Self {
        Self::NotNow(error.into())
    }
}

async fn process(context: &Context, request: DownloadRequest) -> Result<()> {
    let mut answered = request.clone();
    answered.status.expiration = Some(expiration());
    match answer(context, &request).await {
        Ok((url, token)) => {
            answered.status.download_url = url;
            answered.status.phase = Some(DownloadRequestPhase::Processed);
            let annotations = answered.metadata.annotations.get_or_insert_default();
            annotations.insert(DOWNLOAD_TOKEN_ANNOTATION.to_owned(), token);
            context.objects.force(&request, &answered).await.map(drop)
        }
        Err(NoAnswer::Never(reason)) => fail(context, &request, answered, reason).await,
        Err(NoAnswer::NotNow(error)) => {
            // The expiration is written in every case, so that a request that cannot be answered goes away too.
            if request.status.expiration.is_none() {
                context.objects.force(&request, &answered).await?;
            }
            Err(error)
        }
    }
}

/// Says that a request will never be answered, so that nobody waits for it.
async fn fail(context: &Context, request: &DownloadRequest, expiring: DownloadRequest, reason: String) -> Result<()> {
    tracing::info!(request = name(request), reason, "A download request has failed");
    let mut failed = expiring.clone();
    failed.status.phase = Some(DownloadRequestPhase::Failed);
    failed.status.message.clone_from(&reason);
    match context.objects.force(request, &failed).await {
        // The definition of Velero 1.18 has no such phase: with it, who asked waits in vain, as there.
        Err(Error::Cluster(velero_cluster::Error::Invalid(_))) => {
            context.objects.force(request, &expiring).await?;
            Err(Error::unmet("DownloadRequest", name(request), reason))
        }
        written => written.map(drop),
    }
}

fn expiration() -> Time {
    let lifetime = GoDuration::from_secs(DOWNLOAD_URL_LIFETIME.as_secs().try_into().unwrap_or(i64::MAX));
    Time(clock::after(clock::now(), lifetime))
}

/// The URL and the token of a request.
async fn answer(context: &Context, request: &DownloadRequest) -> Result<(String, String), NoAnswer> {
    let store = store_of(context, &request.spec.target).await?;
    store_news(context, &request.spec.target, &store).await?;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let url = match store.download_url(&request.spec.target).await {
        Ok(url) => url,
        Err(StoreError::NotSupported { .. }) if store.download_key(&request.spec.target).is_ok() => {
            format!("{SERVER_URL_SCHEME}/downloads/{}?token={token}", name(request))
        }
        Err(error) => return Err(error.into()),
    };
    Ok((url, token))
}

/// Stores what is known of operations and not in the bucket yet, when that is what is asked for.
async fn store_news(context: &Context, target: &DownloadTarget, store: &BackupStore) -> Result<()> {
    match target.kind {
        DownloadTargetKind::BackupItemOperations => {
            if let Some(news) = context.backups.operations.unstored(&target.name) {
                Files::new(store, Work::Backup, &target.name).put_operations(&news).await?;
            }
        }
        DownloadTargetKind::RestoreItemOperations => {
            if let Some(news) = context.restores.operations.unstored(&target.name) {
                Files::new(store, Work::Restore, &target.name).put_operations(&news).await?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The store that holds what is asked for.
async fn store_of(context: &Context, target: &DownloadTarget) -> Result<BackupStore, NoAnswer> {
    if let Some(problem) = unknown_target(target) {
        return Err(NoAnswer::Never(problem));
    }
    let missing = |kind: &str, wanted: &str| NoAnswer::Never(format!("{kind} {wanted:?} does not exist"));
    let backup_name = if target.kind.is_of_restore() {
        let restore = context.objects.get::<Restore>(&target.name).await?;
        let restore = restore.ok_or_else(|| missing("restore", &target.name))?;
        let phase = restore.status.phase();
        if let Some(problem) = no_files("restore", &target.name, phase.as_str(), phase.stage()) {
            return Err(NoAnswer::Never(problem));
        }
        restore.spec.backup_name
    } else {
        target.name.clone()
    };
    let backup = context.objects.get::<Backup>(&backup_name).await?;
    let backup = backup.ok_or_else(|| missing("backup", &backup_name))?;
    let phase = backup.status.phase();
    if let Some(problem) = no_files("backup", &backup_name, phase.as_str(), phase.stage()) {
        return Err(NoAnswer::Never(problem));
    }
    let place = &backup.spec.storage_location;
    let location = context.objects.get::<BackupStorageLocation>(place).await?;
    let location = location.ok_or_else(|| missing("backup storage location", place))?;
    Ok(context.locations.open_briefly(&location).await?)
}

/// Opens the file of a request for somebody who shows its token. `None` when there is no such request, its time is
/// over or the token is another one; which of these is not told.
pub(crate) async fn open(context: &Context, request: &str, token: &str) -> Result<Option<ByteStream>> {
    if !can_be_asked_for(request, token) {
        return Ok(None);
    }
    let Some(request) = context.objects.get::<DownloadRequest>(request).await? else { return Ok(None) };
    if !admits(&request, token, clock::now()) {
        return Ok(None);
    }
    let store = match store_of(context, &request.spec.target).await {
        Ok(store) => store,
        Err(NoAnswer::Never(_)) => return Ok(None),
        Err(NoAnswer::NotNow(error)) => return Err(error),
    };
    match store.download(&request.spec.target).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file, or why there will never be one.
pub(crate) enum FileOrNone {
    File(ByteStream),
    None(String),
}

/// Opens a file of a backup or restore, as it is now, for somebody who may ask for its download.
pub(crate) async fn open_file(context: &Context, target: &DownloadTarget) -> Result<FileOrNone> {
    let store = match store_of(context, target).await {
        Ok(store) => store,
        Err(NoAnswer::Never(reason)) => return Ok(FileOrNone::None(reason)),
        Err(NoAnswer::NotNow(error)) => return Err(error),
    };
    store_news(context, target, &store).await?;
    match store.download(target).await {
        Ok(stream) => Ok(FileOrNone::File(stream)),
        Err(error) if error.is_not_found() => {
            let reason = format!("there is no {} of {:?} in its location", target.kind.as_str(), target.name);
            Ok(FileOrNone::None(reason))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether there can be such a request at all. Anybody may send anything here, and the name becomes part of a request to
/// the API server.
pub(crate) fn can_be_asked_for(request: &str, token: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let is_name = !request.starts_with('.') && request.bytes().all(is_part);
    is_name && (1..=LONGEST_NAME).contains(&request.len()) && token.len() == TOKEN_LENGTH
}

fn admits(request: &DownloadRequest, token: &str, now: jiff::Timestamp) -> bool {
    let expected = request.metadata.annotations.as_ref().and_then(|all| all.get(DOWNLOAD_TOKEN_ANNOTATION));
    let unexpired = request.status.expiration.as_ref().is_some_and(|time| time.0 >= now);
    let processed = *request.status.phase() == DownloadRequestPhase::Processed;
    unexpired && processed && expected.is_some_and(|expected| is_same(expected, token))
}

/// Compares without telling by the time it takes where the difference is.
fn is_same(expected: &str, given: &str) -> bool {
    let differences = expected.bytes().zip(given.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    !expected.is_empty() && expected.len() == given.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("downloads", show_token)]
    }

    /// Whatever a token is, only the one that the request has opens anything.
    fn show_token(bytes: &[u8]) {
        const TOKEN: &str = "0123456789abcdef0123456789abcdef";
        let text = String::from_utf8_lossy(bytes);
        let given = text.split_once("token=").map_or("", |(_, token)| token);
        let mut request = DownloadRequest::default();
        let notes = [(DOWNLOAD_TOKEN_ANNOTATION.to_owned(), TOKEN.to_owned())];
        request.metadata.annotations = Some(notes.into());
        request.status.expiration = Some(clock::now_time());
        request.status.phase = Some(DownloadRequestPhase::Processed);
        assert_eq!(admits(&request, given, jiff::Timestamp::UNIX_EPOCH), given == TOKEN);
        assert!(!admits(&request, given, jiff::Timestamp::MAX));
        request.metadata.annotations = None;
        assert!(!admits(&request, given, jiff::Timestamp::UNIX_EPOCH), "no token is no key");
    }

    strike_all!(parsers);

    #[test]
    fn what_cannot_be_a_request_is_not_looked_for() {
        let token = uuid::Uuid::new_v4().simple().to_string();
        assert!(can_be_asked_for("nginx-backup-20260101", &token) && can_be_asked_for("a.b", &token));
        for name in ["", ".", "../secrets/keys", "a/b", "a?watch=true", "a%2fb", "Big", "a\nb", &"a".repeat(254)] {
            assert!(!can_be_asked_for(name, &token), "{name}");
        }
        for wrong in ["", "0", &token[1..], &format!("{token}0")] {
            assert!(!can_be_asked_for("a", wrong), "{wrong}");
        }
    }

    #[test]
    fn only_the_token_of_an_unexpired_answer_opens_the_file() {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut request = DownloadRequest::new("velero", "r", Default::default());
        request.metadata.annotations = Some([(DOWNLOAD_TOKEN_ANNOTATION.to_owned(), "secret".to_owned())].into());
        request.status.expiration = Some(Time(now));
        assert!(!admits(&request, "secret", now), "not answered yet");
        request.status.phase = Some(DownloadRequestPhase::Processed);
        assert!(admits(&request, "secret", now));
        for wrong in ["", "secres", "secret2", "secre"] {
            assert!(!admits(&request, wrong, now), "{wrong}");
        }
        let later = now.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        assert!(!admits(&request, "secret", later), "expired");
        request.metadata.annotations = Some([(DOWNLOAD_TOKEN_ANNOTATION.to_owned(), String::new())].into());
        assert!(!admits(&request, "", now), "an empty token opens nothing");
    }
}
