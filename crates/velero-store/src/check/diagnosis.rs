//! From what was seen of a location to why it does not work, and what to do about it: no requests, no clock.

mod connection;
mod credentials;
mod rights;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::bucket_settings::Look;
use super::observation::{Failure, Observation, Place, Right};

/// From where on stores refuse requests for the time in them.
const REFUSED_AHEAD: i64 = 15 * 60;
/// From where on a clock is worth a word.
const NOTICED_AHEAD: i64 = 5 * 60;

/// One thing that is wrong with a location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which of the known causes it is.
    pub cause: Cause,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.as_str() {
            "" => formatter.write_str(&self.problem),
            remedy => write!(formatter, "{}; {remedy}", self.problem),
        }
    }
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// The location cannot be used.
    Error,
    /// It can, and this will do harm later.
    Warning,
    /// It is good to know.
    Note,
}

/// The causes that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Cause {
    /// The description of the location is refused before any request.
    Config,
    /// A value or the credentials have a line break, quotes or the like in them.
    CredentialsSpoiled,
    /// There are no credentials.
    CredentialsMissing,
    /// They were good once.
    CredentialsExpired,
    /// The store does not know them.
    CredentialsUnknown,
    /// The secret is not that of the key.
    CredentialsWrong,
    /// The role that they are for is not handed out.
    RoleRefused,
    /// They do not permit what is needed.
    RightMissing,
    /// The bucket is in another region.
    WrongRegion,
    /// There is no such bucket.
    BucketMissing,
    /// The clocks differ.
    ClockOff,
    /// What answers is no object store.
    NotAStore,
    /// The certificate of the store is signed by somebody who is not trusted.
    CertificateUntrusted,
    /// The certificate is not good: expired, or of another name.
    CertificateWrong,
    /// One side speaks TLS and the other does not.
    WrongScheme,
    /// Nobody answers.
    Unreachable,
    /// The store has trouble of its own.
    StoreTrouble,
    /// The key that objects are encrypted with cannot be used.
    EncryptionKey,
    /// The store does not take what is sent along to check objects.
    ChecksumRefused,
    /// The bucket holds folders of others.
    ForeignFolders,
    /// The location holds backups that are not of this cluster.
    UnknownBackups,
    /// A rule removes or archives objects.
    LifecycleRule,
    /// Objects cannot be removed for a while.
    ObjectLock,
    /// None of these.
    Other,
}

impl Finding {
    fn error(cause: Cause, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause, severity: Severity::Error, problem: problem.into(), remedy: remedy.into() }
    }

    fn warning(cause: Cause, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(cause, problem, remedy) }
    }

    fn note(cause: Cause, problem: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(cause, problem, "") }
    }

    /// Whether something must be done.
    pub fn is_trouble(&self) -> bool {
        self.severity != Severity::Note
    }
}

/// Why a location does not work, or will not for long: what comes first explains most.
pub fn diagnose(seen: &Observation) -> Vec<Finding> {
    if let Some(refusal) = &seen.refusal {
        return vec![of_refusal(seen, refusal)];
    }
    if let Some(finding) = sent_on(seen) {
        return vec![finding];
    }
    let mut findings = Vec::new();
    for (right, failure) in seen.failures().filter(|(_, failure)| !failure.is_refused_right()) {
        let found = in_address(seen, general_cause(seen, failure)).unwrap_or_else(|| {
            Finding::error(Cause::Other, format!("could not {} an object: {}", right.word(), failure.text), "")
        });
        if !findings.contains(&found) {
            findings.push(found);
        }
    }
    if let Some(finding) = refused_for_clock(seen) {
        findings.push(finding);
    } else {
        findings.extend(rights::missing(seen));
        findings.extend(clock_in_general(seen));
    }
    findings.extend(left_behind(seen));
    findings.extend(foreign_folders(seen));
    findings.extend(settings(seen));
    findings
}

/// What comes of a request that was sent on says nothing of the credentials, which were left behind.
fn sent_on(seen: &Observation) -> Option<Finding> {
    let to = seen.sent_on_to.as_ref().filter(|_| seen.first_failure().is_some())?;
    Some(Finding::error(
        Cause::WrongScheme,
        format!("{} sends everybody on to {to}, and credentials do not go along", seen.place.address),
        "write https:// into the URL of the location",
    ))
}

/// Why requests as such fail, whatever they are for.
fn general_cause(seen: &Observation, failure: &Failure) -> Option<Finding> {
    connection::cause(seen, failure)
        .or_else(|| clock(seen, failure))
        .or_else(|| account_key(failure))
        .or_else(|| encryption(failure))
        .or_else(|| credentials::cause(seen, failure))
        .or_else(|| region(seen, failure))
        .or_else(|| bucket(seen, failure))
        .or_else(|| connection::not_a_store(seen, failure))
        .or_else(|| trouble(failure))
        .or_else(|| refused_for_lock(failure))
        .or_else(|| checksum(failure))
}

/// The address of a location may say more than where the store is, and then the bucket is asked for at a place where it is not: that
/// explains answers that come from elsewhere.
fn in_address(seen: &Observation, found: Option<Finding>) -> Option<Finding> {
    const EXPLAINED: [Cause; 3] = [Cause::BucketMissing, Cause::NotAStore, Cause::CertificateWrong];
    // Those who show the address of a bucket with it in front. A host of one's own may be called as its bucket is.
    const WITH_BUCKET_IN_FRONT: [&str; 4] =
        [".amazonaws.com", ".digitaloceanspaces.com", ".wasabisys.com", ".backblazeb2.com"];
    if found.as_ref().is_some_and(|found| !EXPLAINED.contains(&found.cause)) {
        return found;
    }
    let place = &seen.place;
    let address = place.address.split_once("://").map_or("", |(_, address)| address);
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let has_bucket = host.starts_with(&format!("{}.", place.bucket))
        && WITH_BUCKET_IN_FRONT.iter().any(|provider| host.ends_with(provider));
    let is_of_host = found.as_ref().is_some_and(|found| found.cause == Cause::CertificateWrong);
    let more = match path.trim_matches('/') {
        _ if place.provider != "aws" => return found,
        _ if has_bucket => "the bucket in front of its host".to_owned(),
        "" => return found,
        _ if is_of_host => return found,
        path => format!("the path /{path}"),
    };
    Some(Finding::error(
        Cause::BucketMissing,
        format!("config s3Url {:?} has {more}, and {} is asked for below that", place.address, bucket_words(place)),
        "write the address of the store alone into config s3Url, as https://HOST:PORT: the bucket belongs into \
         spec.objectStorage.bucket, and folders into spec.objectStorage.prefix",
    ))
}

/// The bucket, in words.
fn bucket_words(place: &Place) -> String {
    let kind = if place.provider == "azure" { "container" } else { "bucket" };
    format!("{kind} {:?}", place.bucket)
}

/// A description that no request can be made from; what is odd about its texts explains it best.
fn of_refusal(seen: &Observation, refusal: &str) -> Finding {
    match seen.flaws.first() {
        Some(flaw) => {
            let (problem, remedy) = flaw.words();
            Finding::error(Cause::CredentialsSpoiled, problem, remedy)
        }
        None => Finding::error(Cause::Config, refusal, ""),
    }
}

fn in_minutes(seconds: i64) -> String {
    let seconds = seconds.abs();
    match seconds {
        0..=119 => format!("{seconds} seconds"),
        120..=7199 => format!("{} minutes", seconds / 60),
        7200..=172_799 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn clock_finding(seen: &Observation) -> Finding {
    let ahead = seen.clock.map(|clock| clock.ahead()).unwrap_or_default();
    let problem = match ahead {
        0 => "the store says that our clock and its own differ too much".to_owned(),
        1.. => format!("the clock of this machine is {} ahead of that of the store", in_minutes(ahead)),
        _ => format!("the clock of this machine is {} behind that of the store", in_minutes(ahead)),
    };
    let remedy = "set the clock of the machine that is wrong, and keep it by NTP: stores refuse requests that are more than \
                  15 minutes off";
    Finding::error(Cause::ClockOff, problem, remedy)
}

/// A request that is refused for its time; Azure and others say no more than that they do not accept it, and Google gives no
/// token for a signature of another time.
fn clock(seen: &Observation, failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    let said = ["RequestTimeTooSkewed", "RequestExpired"].contains(&response.code.as_str());
    let is_refused = [401, 403].contains(&response.status) || response.code == "invalid_grant";
    let shown = is_refused && seen.clock.is_some_and(|clock| clock.ahead().abs() > REFUSED_AHEAD);
    (said || shown).then(|| clock_finding(seen))
}

/// All is refused, and the clocks explain it.
fn refused_for_clock(seen: &Observation) -> Option<Finding> {
    let (_, failure) = seen.failures().find(|(_, failure)| failure.is_refused_right())?;
    clock(seen, failure)
}

/// A clock that is wrong and has not done harm yet.
fn clock_in_general(seen: &Observation) -> Option<Finding> {
    let is_off = seen.clock.is_some_and(|clock| clock.ahead().abs() > NOTICED_AHEAD);
    let told = seen.first_failure().is_some_and(|(_, failure)| clock(seen, failure).is_some());
    (is_off && !told).then(|| Finding { severity: Severity::Warning, ..clock_finding(seen) })
}

fn region(seen: &Observation, failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    let about_region = [
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "TemporaryRedirect",
        "IllegalLocationConstraintException",
    ];
    let elsewhere = !response.region.is_empty() && response.region != seen.place.region;
    let said = about_region.contains(&response.code.as_str());
    if !(said || elsewhere && [301, 307, 400].contains(&response.status)) {
        return None;
    }
    let bucket = bucket_words(&seen.place);
    let ours = match seen.place.region.as_str() {
        "" => "the location names none".to_owned(),
        region => format!("the location says {region:?}"),
    };
    Some(match response.region.as_str() {
        "" => Finding::error(
            Cause::WrongRegion,
            format!("{bucket} is not in the region that is asked, {ours}: {}", response.message),
            "set config region to that of the bucket",
        ),
        region => Finding::error(
            Cause::WrongRegion,
            format!("{bucket} is in region {region:?}, and {ours}"),
            format!("set config region to {region}"),
        ),
    })
}

/// Azure is asked for the key of the storage account where none is given.
fn account_key(failure: &Failure) -> Option<Finding> {
    let response = failure.response().filter(|_| failure.is_about_an_account_key())?;
    match response.status {
        401 | 403 => Some(Finding::error(
            Cause::RightMissing,
            "the identity may not look up the key of the storage account",
            "permit Microsoft.Storage/storageAccounts/listKeys/action on it, or give the key with config storageAccountKeyEnvVar, or \
             set config useAAD to \"true\"",
        )),
        404 => Some(Finding::error(
            Cause::BucketMissing,
            "the storage account is not in that subscription and resource group",
            "correct config storageAccount, resourceGroup and subscriptionId",
        )),
        _ => None,
    }
}

fn encryption(failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    response.is_about_a_key().then(|| {
        Finding::error(
            Cause::EncryptionKey,
            format!("the key that objects are encrypted with cannot be used: {} {}", response.code, response.message),
            "correct config kmsKeyId, and permit kms:GenerateDataKey and kms:Decrypt on that key",
        )
    })
}

fn bucket(seen: &Observation, failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    let said = ["NoSuchBucket", "ContainerNotFound", "InvalidBucketName"].contains(&response.code.as_str());
    let shown = response.status == 404 && response.is_of_a_store && response.code.is_empty();
    (said || shown).then(|| {
        let problem = match response.code.as_str() {
            "InvalidBucketName" => format!("{} is no name that a bucket can have", bucket_words(&seen.place)),
            _ => format!("{} does not exist", bucket_words(&seen.place)),
        };
        Finding::error(Cause::BucketMissing, problem, "create it, or correct spec.objectStorage.bucket")
    })
}

fn trouble(failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    let says = if response.code.is_empty() { &response.message } else { &response.code };
    (response.status >= 500 || response.status == 429).then(|| {
        Finding::error(
            Cause::StoreTrouble,
            format!("the store answers {} {says}", response.status),
            "it has trouble of its own, or too many requests: look at its health, then try again",
        )
    })
}

/// A bucket with a lock that wants more of an upload than it gets.
fn refused_for_lock(failure: &Failure) -> Option<Finding> {
    let response = failure.response()?;
    (response.code.contains("ObjectLock") || response.message.contains("Object Lock")).then(|| {
        Finding::error(
            Cause::ObjectLock,
            format!("the bucket locks new objects, and does not take ours: {} {}", response.code, response.message),
            "remove config checksumAlgorithm if it is \"\": what is locked needs a checksum; else use a bucket without default \
             retention",
        )
    })
}

/// Stores that speak S3 and do not know the checksums of newer clients.
fn checksum(failure: &Failure) -> Option<Finding> {
    const CODES: [&str; 5] = [
        "XAmzContentSHA256Mismatch",
        "XAmzContentChecksumMismatch",
        "MissingContentLength",
        "NotImplemented",
        "BadDigest",
    ];
    let response = failure.response()?;
    let about_checksum = CODES.contains(&response.code.as_str())
        || (response.status == 400 && response.message.to_ascii_lowercase().contains("checksum"));
    about_checksum.then(|| {
        Finding::error(
            Cause::ChecksumRefused,
            format!("the store does not take the checksum of an object: {} {}", response.code, response.message),
            "set config checksumAlgorithm to \"\" for stores that do not know checksums",
        )
    })
}

fn left_behind(seen: &Observation) -> Option<Finding> {
    let key = seen.left_behind.as_ref()?;
    Some(Finding::note(
        Cause::RightMissing,
        format!("the object {key:?} of this check could not be removed: remove it by hand"),
    ))
}

fn foreign_folders(seen: &Observation) -> Option<Finding> {
    if seen.foreign_folders.is_empty() {
        return None;
    }
    let place = match seen.place.prefix.as_str() {
        "" => bucket_words(&seen.place),
        prefix => format!("prefix {prefix:?} of {}", bucket_words(&seen.place)),
    };
    let folders = seen.foreign_folders.join(" ");
    Some(Finding::error(
        Cause::ForeignFolders,
        format!("{place} holds folders that no backup makes: [{folders}]"),
        "use an empty bucket, or a prefix of its own (spec.objectStorage.prefix)",
    ))
}

/// What to say of backups that lie in a location and are not among those of the cluster that uses it; where those are not
/// known, of all.
pub fn unknown_backups(seen: &Observation, known: Option<&BTreeSet<String>>) -> Option<Finding> {
    let is_known = |name: &String| known.is_some_and(|known| known.contains(name));
    let unknown: Vec<&str> = seen.backups.iter().filter(|name| !is_known(name)).map(String::as_str).collect();
    let whose = match known {
        Some(_) => "that are not of this cluster",
        None => "already, of this cluster or of another",
    };
    let names = match unknown.as_slice() {
        [] => return None,
        [first, second, _, _, ..] => format!("{first}, {second} and others"),
        few => few.join(", "),
    };
    Some(Finding::note(
        Cause::UnknownBackups,
        format!(
            "{} backups lie there {whose} ({names}). Clusters that use one bucket and prefix see each other's backups, and remove \
             them when they expire: where that is not meant, use a prefix of its own (spec.objectStorage.prefix), or \
             accessMode ReadOnly to restore from them",
            unknown.len()
        ),
    ))
}

fn settings(seen: &Observation) -> Vec<Finding> {
    let Some(settings) = &seen.settings else { return Vec::new() };
    let bucket = bucket_words(&seen.place);
    let mut findings = Vec::new();
    match &settings.lifecycle {
        Look::Seen(rules) => findings.extend(rules.iter().filter_map(|rule| {
            let harm = rule.harm(&seen.place)?;
            Some(Finding::warning(
                Cause::LifecycleRule,
                format!("lifecycle rule {:?} of {bucket} {harm}, however long backups are to be kept", rule.id),
                "remove the rule or give it another prefix: backups end by their TTL, and of volume data older files are \
                 parts of newer backups",
            ))
        })),
        Look::Unseen(reason) => findings.push(Finding::note(Cause::LifecycleRule, format!("not looked at: {reason}"))),
    }
    match &settings.lock {
        Look::Seen(None) => {}
        Look::Seen(Some(lock)) => findings.push(Finding::warning(
            Cause::ObjectLock,
            format!(
                "{bucket} locks every new object for {} ({}): until then nothing that is deleted, expired backups and \
                 maintained volume data included, gives its room back",
                lock.length(),
                lock.mode.to_lowercase()
            ),
            "expect that room, keep TTLs longer than the lock, and add a rule that removes noncurrent versions; or use a \
             bucket without default retention",
        )),
        Look::Unseen(reason) => findings.push(Finding::note(Cause::ObjectLock, format!("not looked at: {reason}"))),
    }
    findings
}

/// All the rights a location needs.
pub(super) const RIGHTS: [Right; 4] = [Right::List, Right::Put, Right::Get, Right::Delete];
