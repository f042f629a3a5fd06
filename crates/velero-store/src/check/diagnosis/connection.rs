//! Nobody answers, or somebody else does.

use super::{Cause, Finding};
use crate::check::observation::{Failure, Observation, Place};

/// Where machines of clouds ask who they are.
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.", "metadata.google"];

/// Why there is no answer.
pub(super) fn cause(seen: &Observation, failure: &Failure) -> Option<Finding> {
    let address = failure.exchange.as_ref().map(|exchange| exchange.address.as_str()).unwrap_or_default();
    if METADATA.iter().any(|place| address.contains(place)) && !is_good(failure) {
        return Some(Finding::error(
            Cause::CredentialsMissing,
            "there are no credentials, and the machine has no identity that its cloud would vouch for",
            "give the location credentials (spec.credential, or the Secret cloud-credentials), or the server a role",
        ));
    }
    let text = failure.broken()?;
    let host = host(address);
    let says = |pieces: &[&str]| pieces.iter().any(|piece| text.contains(piece));
    let finding = match () {
        () if says(&["UnknownIssuer", "unknown issuer", "self signed", "self-signed"]) => untrusted(seen, host),
        () if says(&["certificate expired", "Expired", "NotValidYet", "not valid yet"]) => Finding::error(
            Cause::CertificateWrong,
            format!("the certificate of {host} has expired, or the clock of this machine is wrong"),
            "renew the certificate of the store; look at the clock",
        ),
        () if says(&["NotValidForName", "not valid for name"]) => Finding::error(
            Cause::CertificateWrong,
            format!("the certificate of {host} is for another name"),
            "write the name of the certificate into config s3Url (with s3ForcePathStyle: \"true\" where it does not cover \
             BUCKET.HOST), or give the store a certificate for this one",
        ),
        () if says(&["corrupt message", "InvalidContentType", "wrong version number"]) => Finding::error(
            Cause::WrongScheme,
            format!("{host} does not speak TLS, and the location asks for https"),
            "write http:// into the URL of the location, or switch TLS on at the store",
        ),
        () if says(&["invalid HTTP"]) => Finding::error(
            Cause::NotAStore,
            format!("what listens at {host} does not speak HTTP, so it is no object store"),
            format!("correct host and port in config {}", address_field(seen)),
        ),
        () if says(&["invalid peer certificate", "CaUsedAsEndEntity"]) => Finding::error(
            Cause::CertificateWrong,
            format!("the certificate of {host} is not accepted: {}", last_words(text)),
            "give the store a certificate that is made for servers, and its CA to spec.objectStorage.caCert",
        ),
        () => unreachable(seen, host, text),
    };
    Some(beside_proxy(seen, finding))
}

/// Whoever stands between may be the one who answers, or does not.
fn beside_proxy(seen: &Observation, finding: Finding) -> Finding {
    match seen.place.proxy.as_str() {
        "" => finding,
        variable => {
            let through =
                format!("; requests go through the proxy that {variable} names unless NO_PROXY excepts the store");
            Finding { remedy: finding.remedy + &through + ": look there too", ..finding }
        }
    }
}

fn is_good(failure: &Failure) -> bool {
    failure.response().is_some_and(|response| response.status < 300)
}

fn untrusted(seen: &Observation, host: &str) -> Finding {
    let remedy = match seen.place.provider.as_str() {
        "aws" => {
            "put the certificate of its CA into spec.objectStorage.caCert (velero backup-location set NAME --cacert FILE)"
        }
        _ => "put the certificate of its CA into spec.objectStorage.caCert",
    };
    Finding::error(
        Cause::CertificateUntrusted,
        format!("the certificate of {host} is signed by a CA that is not trusted here"),
        remedy,
    )
}

fn unreachable(seen: &Observation, host: &str, text: &str) -> Finding {
    let says = |pieces: &[&str]| pieces.iter().any(|piece| text.contains(piece));
    let (problem, remedy) = match () {
        () if says(&["dns error", "failed to lookup", "Name or service not known"]) => {
            (format!("the name {host} is not known here"), unknown_name(&seen.place, host))
        }
        () if says(&["Connection refused", "connection refused"]) => (
            format!("nothing listens at {host}"),
            "correct host and port in the URL of the location, or start the store",
        ),
        () if says(&["timed out", "Timeout", "deadline"]) => (
            format!("{host} does not answer in time"),
            "look for a firewall or NetworkPolicy between here and the store, and for a proxy that is needed",
        ),
        () if host.starts_with("http://") && says(&["before message completed", "onnection reset"]) => (
            format!("{host} ends the connection without an answer"),
            "write https:// into the URL of the location if the store speaks TLS; else look at the store, and at what stands before it",
        ),
        () => (
            format!("{host} cannot be reached: {}", last_words(text)),
            "check the URL of the store and that it can be reached from here",
        ),
    };
    Finding::error(Cause::Unreachable, problem, remedy)
}

/// What to do about a name that nobody knows. Where the location has no URL it is made from other keys.
fn unknown_name(place: &Place, host: &str) -> &'static str {
    match place.provider.as_str() {
        "aws" if place.address.is_empty() && host.contains(".amazonaws.com") => {
            "correct config region, which the name is made from; for a store that is not AWS's write its URL into config s3Url"
        }
        // A name of one machine has no names below it.
        "aws" if !place.bucket.is_empty() && host.contains(&format!("://{}.", place.bucket)) => {
            "set config s3ForcePathStyle to \"true\", for the bucket was put in front of the name in config s3Url; or correct that name"
        }
        "azure" if place.address.is_empty() && host.contains(".blob.core.") => {
            "correct config storageAccount, which the name is made from, or AZURE_CLOUD_NAME of the credentials"
        }
        _ => {
            "correct the URL of the location; a name of the cluster is known in the cluster alone: check from the pod of the \
             server"
        }
    }
}

/// Somebody answers who is no object store.
pub(super) fn not_a_store(seen: &Observation, failure: &Failure) -> Option<Finding> {
    let exchange = failure.exchange.as_ref()?;
    let response = failure.response()?;
    let is_page = response.content_type.contains("html");
    // What stands before a store may answer for it when it is down.
    if !is_page && (response.is_of_a_store || response.status >= 500) {
        return None;
    }
    let host = host(&exchange.address);
    if response.message.contains("HTTP request to an HTTPS server") || response.message.contains("plain HTTP request") {
        return Some(Finding::error(
            Cause::WrongScheme,
            format!("{host} speaks TLS, and the location asks for http"),
            "write https:// into the URL of the location",
        ));
    }
    let server = match response.server.as_str() {
        "" => String::new(),
        server => format!(", it calls itself {server:?}"),
    };
    let kind = match response.content_type.as_str() {
        "" => String::new(),
        kind => format!(" with {kind:?}"),
    };
    let field = address_field(seen);
    let finding = Finding::error(
        Cause::NotAStore,
        format!("what answers at {host} is no object store{server}: it answers {}{kind}", response.status),
        format!("correct config {field}: stores have a port for their protocol beside the one for their web page"),
    );
    Some(beside_proxy(seen, finding))
}

/// The key of a location's config that holds the address of the store.
fn address_field(seen: &Observation) -> &'static str {
    match seen.place.provider.as_str() {
        "azure" => "storageAccountURI",
        "gcp" => "storeEndpoint",
        _ => "s3Url",
    }
}

/// The scheme, name and port of an address.
fn host(address: &str) -> &str {
    let from = address.find("://").map_or(0, |at| at + 3);
    let to = address[from..].find('/').map_or(address.len(), |at| from + at);
    &address[..to]
}

fn last_words(text: &str) -> &str {
    text.rsplit(": ").next().unwrap_or(text)
}
