//! Why EC2 did not do what it was asked, and what that means for who asked.

use std::time::Duration;

use super::answers::{ErrorAnswer, ErrorResponse};

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} of {object}: {problem}{}", remedy(.trouble, .action, *.waited))]
pub(crate) struct Error {
    /// What was asked for.
    pub(crate) action: &'static str,
    /// What it was about.
    pub(crate) object: String,
    /// What went wrong, in the words of EC2 where there are any.
    pub(crate) problem: String,
    /// What that means.
    pub(crate) trouble: Trouble,
    /// How long it was tried.
    pub(crate) waited: Duration,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// EC2 has not begun: it limits requests, is not available or cannot be reached. Asking again may help.
    NotBegun,
    /// Nobody knows whether it was done: no answer came, or that of a failure inside EC2.
    Unclear,
    /// The volume or snapshot does not exist.
    NotFound,
    /// EC2 does not accept the credentials any more, or never did.
    Credentials,
    /// The account may not do that.
    Forbidden,
    /// Anything else. Asking again does not help.
    Refused,
}

impl Trouble {
    /// The trouble and the words of an answer that is no success.
    pub(super) fn of_answer(status: u16, body: &str) -> (Self, String) {
        let answer = quick_xml::de::from_str(body).ok().and_then(ErrorResponse::into_first);
        let Some(ErrorAnswer { code, message }) = answer else {
            let trouble = match status {
                429 | 503 => Self::NotBegun,
                500.. => Self::Unclear,
                _ => Self::Refused,
            };
            return (trouble, format!("EC2 answers with status {status}"));
        };
        let words = if message.is_empty() { code.clone() } else { format!("{code}: {message}") };
        (Self::of_code(&code, status), words)
    }

    fn of_code(code: &str, status: u16) -> Self {
        match code {
            "RequestLimitExceeded"
            | "Throttling"
            | "ThrottlingException"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "EC2ThrottledException"
            | "SnapshotCreationPerVolumeRateExceeded"
            | "ConcurrentSnapshotLimitExceeded"
            | "ServiceUnavailable"
            | "Unavailable" => Self::NotBegun,
            "InternalError" | "InternalFailure" => Self::Unclear,
            "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired"
            | "AuthFailure"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "InvalidAccessKeyId"
            | "MissingAuthenticationToken" => Self::Credentials,
            "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => Self::Forbidden,
            _ if code.ends_with(".NotFound") => Self::NotFound,
            _ if status == 429 || status == 503 => Self::NotBegun,
            _ if status >= 500 => Self::Unclear,
            _ => Self::Refused,
        }
    }
}

/// What to do, where something can be done.
fn remedy(trouble: &Trouble, action: &str, waited: Duration) -> String {
    match trouble {
        Trouble::Credentials => "; renew the credentials of the volume snapshot location".to_owned(),
        Trouble::Forbidden => format!("; give the account of the credentials the permission ec2:{action}"),
        Trouble::NotBegun | Trouble::Unclear if !waited.is_zero() => format!("; given up after {}s", waited.as_secs()),
        _ => String::new(),
    }
}

impl From<Error> for velero_plugin::Error {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(code: &str) -> String {
        format!("<Response><Errors><Error><Code>{code}</Code><Message>words</Message></Error></Errors></Response>")
    }

    #[test]
    fn codes_and_statuses_say_what_can_be_done() {
        for (status, body, trouble) in [
            (503, body("RequestLimitExceeded"), Trouble::NotBegun),
            (400, body("Throttling"), Trouble::NotBegun),
            (503, body("SomethingNew"), Trouble::NotBegun),
            (503, String::new(), Trouble::NotBegun),
            (429, "<html>".to_owned(), Trouble::NotBegun),
            (500, body("InternalError"), Trouble::Unclear),
            (502, "<html>bad gateway</html>".to_owned(), Trouble::Unclear),
            (400, body("InvalidSnapshot.NotFound"), Trouble::NotFound),
            (400, body("InvalidVolume.NotFound"), Trouble::NotFound),
            (400, body("ExpiredToken"), Trouble::Credentials),
            (401, body("AuthFailure"), Trouble::Credentials),
            (403, body("UnauthorizedOperation"), Trouble::Forbidden),
            (400, body("InvalidParameterValue"), Trouble::Refused),
            (400, "no XML".to_owned(), Trouble::Refused),
        ] {
            assert_eq!(Trouble::of_answer(status, &body).0, trouble, "{status} {body}");
        }
    }

    #[test]
    fn an_error_names_the_object_and_the_remedy() {
        let error = |trouble| Error {
            action: "CreateSnapshot",
            object: "volume vol-1".to_owned(),
            problem: "words".to_owned(),
            trouble,
            waited: Duration::from_secs(7),
        };
        for (trouble, end) in [
            (Trouble::Refused, ""),
            (Trouble::Credentials, "; renew the credentials of the volume snapshot location"),
            (Trouble::Forbidden, "; give the account of the credentials the permission ec2:CreateSnapshot"),
            (Trouble::NotBegun, "; given up after 7s"),
        ] {
            assert_eq!(error(trouble).to_string(), format!("CreateSnapshot of volume vol-1: words{end}"));
        }
    }
}
