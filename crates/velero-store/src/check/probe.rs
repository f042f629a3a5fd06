//! Trying a location out: one small object of its own is listed beside, written, read and removed.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use velero_api::with_causes;
use velero_archive::ObjectKeys;
use velero_archive::keys::TOP_LEVEL_FOLDERS;

use super::bucket_settings::{BucketSettings, Look};
use super::observation::{ClockReading, Failure, Observation, Outcome, Place, Right, Step};
use crate::bucket::{Backend, folder_path};
use crate::providers::aws;
use crate::{Error, Recorder, StoreConfig, TransferSettings, flaws};

/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a request is repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of an answer of somebody who may be no store.
const LONGEST_HEAD: usize = 8 << 10;
/// The folder of the backups.
const BACKUPS: &str = "backups";
/// What the object of the check holds.
const CONTENT: &[u8] = b"Written by velero backup-location check; it may be removed.\n";

/// What the check is allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// List, write, read and remove.
    ReadWrite,
    /// List and read: the location is not written to.
    ReadOnly,
}

/// Tries a location out, whatever is wrong with it.
pub async fn observe(config: &StoreConfig, prefix: &str, mode: Mode) -> Observation {
    let recorder = Recorder::default();
    let config = StoreConfig {
        recorder: Some(recorder.clone()),
        transfer: TransferSettings { retries: 1, retry_timeout: RETRY_TIMEOUT, ..TransferSettings::default() },
        ..config.clone()
    };
    let mut seen = describe(&config, prefix).await;
    // The whole bucket would be listed in place of the folder.
    if let Some(refused) = refused_prefix(prefix) {
        return Observation { place: seen.place, ..refused };
    }
    let backend = match config.backend().await {
        Ok(backend) => backend,
        Err(error) => {
            refuse(&mut seen, &error, &recorder);
            return seen;
        }
    };
    let mut probe = Probe { backend, recorder: recorder.clone(), root: seen.place.prefix.clone(), seen };
    probe.run(mode).await;
    let mut seen = probe.seen;
    let listed = seen.steps.first().is_some_and(|step| step.outcome == Outcome::Done);
    if !listed {
        let sent_on_to = sent_on_to(&seen.place.address).await;
        seen.sent_on_to = sent_on_to;
    }
    if listed && config.short_provider() == "aws" {
        seen.settings = Some(settings(&config).await);
    }
    seen.clock = clock(&recorder);
    seen
}

/// What is known of a location before anything is asked.
pub(super) async fn describe(config: &StoreConfig, prefix: &str) -> Observation {
    let value = |key: &str| config.get(key).unwrap_or_default().to_owned();
    let (provider, variable, address) = match config.short_provider() {
        "aws" => ("aws", "AWS_SHARED_CREDENTIALS_FILE", "s3Url"),
        "azure" => ("azure", "AZURE_CREDENTIALS_FILE", "storageAccountURI"),
        "gcp" => ("gcp", "GOOGLE_APPLICATION_CREDENTIALS", "storeEndpoint"),
        _ => ("", "", "path"),
    };
    // What cannot be read is said when the store is opened.
    let credentials = match variable {
        "" => None,
        variable => config.credentials_text(provider, variable).await.ok().flatten(),
    };
    let mut flaws = refused_prefix(prefix).map(|refused| refused.flaws).unwrap_or_default();
    flaws.extend(flaws::of_credentials(provider, credentials.as_deref().unwrap_or_default()));
    let place = Place {
        provider: config.short_provider().to_owned(),
        bucket: config.bucket.clone(),
        prefix: ObjectKeys::new(prefix).root().to_owned(),
        region: value("region"),
        address: value(address),
        tagging: value("tagging"),
        has_credentials: credentials.is_some(),
        proxy: proxy(config.get(address).unwrap_or_default()).to_owned(),
    };
    Observation { place, flaws, ..Observation::default() }
}

/// The variable that names a proxy for requests to an address.
fn proxy(address: &str) -> &'static str {
    let variables = match address.starts_with("http://") {
        true => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
        false => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
    };
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    variables.into_iter().find(is_set).unwrap_or_default()
}

/// What is seen of a prefix that no key can have. One that keys can have keeps nobody out, however odd it is.
pub(super) fn refused_prefix(prefix: &str) -> Option<Observation> {
    const FIELD: &str = "spec.objectStorage.prefix";
    let error = folder_path(ObjectKeys::new(prefix).root()).err()?;
    Some(Observation {
        flaws: flaws::of_value(FIELD, prefix).into_iter().collect(),
        refusal: Some(format!("{FIELD}: {}", with_causes(&error))),
        ..Observation::default()
    })
}

/// Writes down why a location could not even be opened: its description, or who was asked for that.
pub(super) fn refuse(seen: &mut Observation, error: &Error, recorder: &Recorder) {
    if let Error::Spoiled { flaw } = error {
        seen.flaws.insert(0, flaw.clone());
    }
    match recorder.last() {
        Some(exchange) => {
            let failure = Failure { text: with_causes(error), exchange: Some(exchange) };
            seen.steps.push(Step { right: Right::List, outcome: Outcome::Failed(failure) });
        }
        None => seen.refusal = Some(with_causes(error)),
    }
}

/// The widest difference between our clock and the store's.
pub(super) fn clock(recorder: &Recorder) -> Option<ClockReading> {
    let exchanges = recorder.exchanges();
    exchanges.iter().filter_map(ClockReading::of).max_by_key(|reading| reading.ahead().abs())
}

struct Probe {
    backend: Backend,
    recorder: Recorder,
    root: String,
    seen: Observation,
}

impl Probe {
    async fn run(&mut self, mode: Mode) {
        let listed = self.list().await;
        let is_hopeless = matches!(&listed, Outcome::Failed(failure) if !failure.is_refused_right());
        self.note(Right::List, listed);
        if is_hopeless {
            return;
        }
        let key = format!("{}velero-check-{}", self.root, unique());
        let Ok(path) = Path::parse(&key) else { return };
        let put = match mode {
            Mode::ReadWrite => self.put(&path).await,
            Mode::ReadOnly => Outcome::Skipped("the location is ReadOnly"),
        };
        let is_there = put == Outcome::Done;
        self.note(Right::Put, put);
        let got = self.get(&path, is_there).await;
        self.note(Right::Get, got);
        let removed = match mode {
            // Also after a write that failed: its answer may have been lost.
            Mode::ReadWrite => self.delete(&path).await,
            Mode::ReadOnly => Outcome::Skipped("the location is ReadOnly"),
        };
        if is_there && removed != Outcome::Done {
            self.seen.left_behind = Some(key);
        }
        self.note(Right::Delete, removed);
    }

    fn note(&mut self, right: Right, outcome: Outcome) {
        self.seen.steps.push(Step { right, outcome });
    }

    async fn list(&mut self) -> Outcome {
        let folder = Path::parse(self.root.trim_end_matches('/')).ok().filter(|path| !path.as_ref().is_empty());
        let store = self.backend.store.clone();
        let mut folders = Vec::new();
        let outcome = self
            .attempt(async {
                let listed = store.list_with_delimiter(folder.as_ref()).await?;
                folders = listed.common_prefixes;
                Ok(())
            })
            .await;
        let names: Vec<&str> = folders.iter().filter_map(|folder| folder.filename()).collect();
        if names.contains(&BACKUPS) {
            self.seen.backups = self.backups().await;
        }
        let foreign = names.iter().filter(|name| !TOP_LEVEL_FOLDERS.contains(*name));
        self.seen.foreign_folders = foreign.map(|name| (*name).to_owned()).collect();
        outcome
    }

    /// The names of the backups that are there; none where that cannot be said.
    async fn backups(&self) -> Vec<String> {
        let Ok(folder) = Path::parse(format!("{}{BACKUPS}", self.root)) else { return Vec::new() };
        let listing = self.backend.store.list_with_delimiter(Some(&folder));
        let Ok(Ok(listed)) = tokio::time::timeout(PATIENCE, listing).await else { return Vec::new() };
        listed.common_prefixes.iter().filter_map(|folder| folder.filename()).map(str::to_owned).collect()
    }

    async fn put(&self, path: &Path) -> Outcome {
        let options = PutOptions::from(self.backend.tags.clone());
        let store = &self.backend.store;
        self.attempt(async { store.put_opts(path, Bytes::from_static(CONTENT).into(), options).await.map(drop) }).await
    }

    /// Reads the object back; one that could not be written is asked for all the same: who may read is told that it is
    /// not there.
    async fn get(&self, path: &Path, is_there: bool) -> Outcome {
        let store = &self.backend.store;
        self.attempt(async {
            match store.get(path).await {
                Ok(found) => found.bytes().await.map(drop),
                Err(object_store::Error::NotFound { .. }) if !is_there => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn delete(&self, path: &Path) -> Outcome {
        let store = &self.backend.store;
        self.attempt(async {
            match store.delete(path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Does one step, within its time.
    async fn attempt(&self, step: impl Future<Output = object_store::Result<()>>) -> Outcome {
        let before = SystemTime::now();
        let text = match tokio::time::timeout(PATIENCE, step).await {
            Ok(Ok(())) => return Outcome::Done,
            Ok(Err(error)) => with_causes(&error),
            Err(_) => format!("no answer within {} seconds", PATIENCE.as_secs()),
        };
        let exchange = self.recorder.last().filter(|exchange| exchange.received >= before);
        Outcome::Failed(Failure { text, exchange })
    }
}

/// Where an address that is not encrypted sends those on to who ask there, if that is to one that is. The client goes there, and leaves
/// the credentials behind.
pub(super) async fn sent_on_to(address: &str) -> Option<String> {
    let host = address.strip_prefix("http://")?.split('/').next()?;
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let place = if has_port { host.to_owned() } else { format!("{host}:80") };
    let asking = async {
        let mut stream = TcpStream::connect(place.as_str()).await.ok()?;
        let question = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await.ok()?;
        let mut head = Vec::new();
        while head.len() < LONGEST_HEAD && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await.ok()? == 0 {
                break;
            }
        }
        encrypted_location(&String::from_utf8_lossy(&head))
    };
    tokio::time::timeout(RETRY_TIMEOUT, asking).await.ok().flatten()
}

/// Where the head of an answer sends on to.
fn encrypted_location(head: &str) -> Option<String> {
    let mut lines = head.lines();
    let is_sent_on = lines.next()?.split_whitespace().nth(1)?.starts_with('3');
    let mut headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let (_, location) = headers.find(|(name, _)| is_sent_on && name.eq_ignore_ascii_case("location"))?;
    Some(location.trim().to_owned()).filter(|location| location.starts_with("https://"))
}

/// How the bucket is set up.
async fn settings(config: &StoreConfig) -> BucketSettings {
    let lifecycle = match aws::subresource(config, "lifecycle").await {
        Ok((200, text)) => BucketSettings::rules(&text),
        Ok((404, _)) => Look::default(),
        Ok((status, _)) => unseen("lifecycle rules", status, "s3:GetLifecycleConfiguration"),
        Err(error) => Look::Unseen(with_causes(&error)),
    };
    let lock = match aws::subresource(config, "object-lock").await {
        Ok((200, text)) => BucketSettings::retention(&text),
        Ok((404, _)) => Look::default(),
        Ok((status, _)) => unseen("object lock", status, "s3:GetBucketObjectLockConfiguration"),
        Err(error) => Look::Unseen(with_causes(&error)),
    };
    BucketSettings { lifecycle, lock }
}

fn unseen<T>(what: &str, status: u16, right: &str) -> Look<T> {
    Look::Unseen(match status {
        403 => format!("the credentials may not read the {what} of the bucket ({right})"),
        status => format!("the store does not tell the {what} of the bucket, it answers {status}"),
    })
}

/// A name that no other check has.
fn unique() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::diagnose;

    #[tokio::test]
    async fn a_prefix_that_no_key_can_have_is_no_good_location() {
        let directory = tempfile::tempdir().unwrap();
        let config = StoreConfig::new("fs", directory.path().to_str().unwrap());
        for (prefix, words) in [
            ("team\n", Some("spec.objectStorage.prefix ends in a line break")),
            ("team/../a", Some("\"team/../a\" cannot be used")),
            ("team//a", None),
        ] {
            let seen = observe(&config, prefix, Mode::ReadWrite).await;
            let told = diagnose(&seen).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            match words {
                Some(words) => assert!(told.contains(words) && seen.steps.is_empty(), "{prefix:?}: {told}\n{seen:#?}"),
                None => assert!(told.is_empty() && seen.steps.len() == 4, "{prefix:?}: {told}\n{seen:#?}"),
            }
        }
    }

    #[test]
    fn only_who_is_sent_on_to_an_encrypted_address_is_told_so() {
        let to = Some("https://store.example.com/");
        for (head, expected) in [
            ("HTTP/1.1 308 Permanent Redirect\r\nServer: x\r\nlocation: https://store.example.com/\r\n\r\n", to),
            ("HTTP/1.1 301 Moved\nLocation:https://store.example.com/\n\n", to),
            ("HTTP/1.1 307 Elsewhere\r\nLocation: http://store.example.com/\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nLocation: https://store.example.com/\r\n\r\n", None),
            ("HTTP/1.1 302 Found\r\n\r\nLocation: https://store.example.com/\r\n", None),
            ("HTTP/1.1 302", None),
            ("", None),
        ] {
            assert_eq!(encrypted_location(head).as_deref(), expected, "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_prefix_that_keys_can_have_explains_no_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let config = StoreConfig::new("fs", directory.path().to_str().unwrap()).with("unknown", "x");
        for prefix in [" team", "team ", "team"] {
            let seen = observe(&config, prefix, Mode::ReadOnly).await;
            let told = diagnose(&seen).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(seen.flaws.is_empty() && told.contains("[unknown]"), "{prefix:?}: {told}");
            assert_eq!(refused_prefix(prefix), None, "{prefix:?}");
        }
    }
}
