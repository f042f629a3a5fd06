//! The store does not accept who we say we are.

use super::{Cause, Finding};
use crate::check::observation::{Failure, Observation};

const EXPIRED: [&str; 5] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
    "IDPCommunicationError",
    "ExpiredAuthenticationToken",
];
const UNKNOWN: [&str; 9] = [
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidToken",
    "InvalidTokenId",
    "UnrecognizedClientException",
    "unauthorized_client",
    "invalid_client",
    "NotSignedUp",
];
const WRONG: [&str; 5] =
    ["SignatureDoesNotMatch", "AuthenticationFailed", "InvalidAuthenticationInfo", "invalid_grant", "AuthFailure"];

/// Which of the ways to be nobody it is.
pub(super) fn cause(seen: &Observation, failure: &Failure) -> Option<Finding> {
    if failure.is_refused_role() {
        return Some(role(failure));
    }
    let response = failure.response()?;
    let code = response.code.as_str();
    let message = response.message.to_ascii_lowercase();
    // Azure's and Google's words for it have no code of their own.
    let is_expired = EXPIRED.contains(&code)
        || (WRONG.contains(&code) || UNKNOWN.contains(&code) || response.status == 401)
            && ["expired", "aadsts7000222", "not valid in the specified time frame"]
                .iter()
                .any(|word| message.contains(word));
    match () {
        () if is_expired => Some(Finding::error(
            Cause::CredentialsExpired,
            format!("the credentials have expired ({})", said(code, response.status)),
            "make new ones and put them into the Secret of the location; for keys that last, use those of a user or a role \
             instead of a session",
        )),
        () if UNKNOWN.contains(&code) => Some(spoiled(seen).unwrap_or_else(|| {
            Finding::error(
                Cause::CredentialsUnknown,
                format!("the store does not know the access key ({code})"),
                "correct the key, or make a new one: it was removed, or belongs to another store or account",
            )
        })),
        () if code == "KeyBasedAuthenticationNotPermitted" => Some(Finding::error(
            Cause::CredentialsWrong,
            format!("the storage account takes no key ({code})"),
            "set config useAAD to \"true\" and give the server an identity, or permit access by key in the storage account",
        )),
        () if WRONG.contains(&code)
            || response.is_about_a_proof()
            || (response.status == 401 && response.is_of_a_store) =>
        {
            Some(spoiled(seen).unwrap_or_else(|| {
                Finding::error(
                    Cause::CredentialsWrong,
                    format!("the secret does not belong to the access key ({})", said(code, response.status)),
                    "write key and secret again into the Secret of the location; look for characters that were lost on the way",
                )
            }))
        }
        () if response.status == 403 && !seen.place.has_credentials && response.is_of_a_store => Some(Finding::error(
            Cause::CredentialsMissing,
            "the store refuses requests, and there are no credentials",
            "give the location credentials: spec.credential, or the Secret cloud-credentials",
        )),
        () => None,
    }
}

/// AWS knows who asks, and does not give them the role.
fn role(failure: &Failure) -> Finding {
    let message = failure.response().map(|response| response.message.as_str()).filter(|message| !message.is_empty());
    let message = message.unwrap_or("not authorized to perform sts:AssumeRole");
    Finding::error(
        Cause::RoleRefused,
        format!("the account that asks is not given its role by AWS: {message}"),
        "correct the trust policy of the role: it has to name who takes it, for a pod \
         system:serviceaccount:NAMESPACE:ACCOUNT with the account that the pod runs as",
    )
}

/// What is odd about the text of the credentials explains why they are not accepted.
fn spoiled(seen: &Observation) -> Option<Finding> {
    let (problem, remedy) = seen.flaws.first()?.words();
    Some(Finding::error(Cause::CredentialsSpoiled, problem, remedy))
}

fn said(code: &str, status: u16) -> String {
    if code.is_empty() { status.to_string() } else { code.to_owned() }
}
