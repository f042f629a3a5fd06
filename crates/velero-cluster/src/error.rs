//! Failures of talking to Kubernetes, sorted by what a caller can do about them.

use std::fmt;
use std::time::Duration;

use kube::core::Status;
use velero_api::with_causes;

use crate::exec::ExecFailure;
use crate::write_guard::NotSent;

/// Result of talking to Kubernetes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the API server answered when it refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was tried and on what, for example `get configmaps shop/settings`.
    pub action: String,
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason of the `Status` object, for example `AlreadyExists`; may be empty.
    pub reason: String,
    /// The server's sentence.
    pub message: String,
    /// Continue token that the server offers in place of an expired one.
    pub(crate) continue_token: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot {}: {} (status {})", self.action, self.message, self.code)
    }
}

/// A failure of talking to Kubernetes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object, its namespace or its type does not exist.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// An object of this name exists already.
    #[error("{0}")]
    AlreadyExists(Box<Refusal>),
    /// The object has changed since it was read; read it again and retry.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// The credentials lack the permission.
    #[error("{0}; grant this permission to the account in use")]
    Forbidden(Box<Refusal>),
    /// The server does not accept the object or the request (status 400 or 422).
    #[error("{0}")]
    Invalid(Box<Refusal>),
    /// The server asks for fewer requests, and kept asking through all retries.
    #[error("{0}")]
    TooManyRequests(Box<Refusal>),
    /// The resource version or continue token is no longer served.
    #[error("{0}")]
    Expired(Box<Refusal>),
    /// The server failed (status 5xx).
    #[error("{0}")]
    Unavailable(Box<Refusal>),
    /// The server refused for another reason.
    #[error("{0}")]
    Other(Box<Refusal>),
    /// No answer: connection refused, broken or timed out.
    #[error("cannot {action}: the API server did not answer: {source}")]
    Unreachable {
        /// What was tried.
        action: String,
        /// The failure of the connection.
        source: BoxError,
    },
    /// The answer is not what the API promises.
    #[error("cannot {action}: the API server sent an answer that cannot be read: {source}")]
    Unreadable {
        /// What was tried.
        action: String,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// The request cannot be made as asked, for example a namespaced type without a namespace.
    #[error("cannot {action}: {message}")]
    BadRequest {
        /// What was tried.
        action: String,
        /// What is wrong with it.
        message: String,
    },
    /// The kubeconfig or the in-cluster credentials cannot be used.
    #[error("cannot connect to Kubernetes: {message}; check the kubeconfig file, its context, or the service account")]
    Configuration {
        /// What is wrong.
        message: String,
    },
    /// This process may not write any more, so nothing was sent.
    #[error("cannot {action}: {reason}")]
    NotSent {
        /// What was tried.
        action: String,
        /// Why it may not.
        reason: String,
    },
    /// A command in a pod failed.
    #[error("{0}")]
    Exec(Box<ExecFailure>),
    /// A condition did not become true in time.
    #[error("{object} did not reach the wanted condition within {waited:?}")]
    TimedOut {
        /// The object that was watched.
        object: String,
        /// For how long.
        waited: Duration,
    },
}

impl Error {
    /// Classifies a failure of the `kube` crate; `action` says what was tried and on what.
    pub fn from_kube(action: impl Into<String>, error: kube::Error) -> Self {
        let action = action.into();
        match error {
            kube::Error::Api(status) => Self::from_status(action, *status),
            kube::Error::SerdeError(source) => Self::Unreadable { action, source: source.into() },
            kube::Error::FromUtf8(source) => Self::Unreadable { action, source: source.into() },
            kube::Error::BuildRequest(source) => Self::BadRequest { action, message: source.to_string() },
            kube::Error::HttpError(source) => Self::BadRequest { action, message: source.to_string() },
            kube::Error::Auth(source) => Self::Configuration { message: source.to_string() },
            kube::Error::Service(source) if source.is::<NotSent>() => {
                Self::NotSent { action, reason: source.to_string() }
            }
            kube::Error::Service(source) => Self::Unreachable { action, source: with_causes(&*source).into() },
            other => Self::Unreachable { action, source: with_causes(&other).into() },
        }
    }

    /// Classifies the `Status` object of a refused request.
    pub fn from_status(action: impl Into<String>, status: Status) -> Self {
        let refusal = Box::new(Refusal {
            action: action.into(),
            code: status.code,
            message: status.message,
            continue_token: status.metadata.and_then(|metadata| metadata.continue_).filter(|token| !token.is_empty()),
            reason: status.reason,
        });
        match (refusal.reason.as_str(), refusal.code) {
            ("AlreadyExists", _) => Self::AlreadyExists(refusal),
            ("Expired" | "Gone", _) | (_, 410) => Self::Expired(refusal),
            ("NotFound", _) | (_, 404) => Self::NotFound(refusal),
            ("Conflict", _) | (_, 409) => Self::Conflict(refusal),
            ("Forbidden" | "Unauthorized", _) | (_, 401 | 403) => Self::Forbidden(refusal),
            ("TooManyRequests", _) | (_, 429) => Self::TooManyRequests(refusal),
            ("Invalid" | "BadRequest", _) | (_, 400 | 422) => Self::Invalid(refusal),
            (_, 500..) => Self::Unavailable(refusal),
            _ => Self::Other(refusal),
        }
    }

    /// The server's answer, when there was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::NotFound(refusal)
            | Self::AlreadyExists(refusal)
            | Self::Conflict(refusal)
            | Self::Forbidden(refusal)
            | Self::Invalid(refusal)
            | Self::TooManyRequests(refusal)
            | Self::Expired(refusal)
            | Self::Unavailable(refusal)
            | Self::Other(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same read may succeed a little later. Reads were retried already before this error came.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::TooManyRequests(_) | Self::Unavailable(_) | Self::Unreachable { .. })
    }

    /// Whether it is not known if the server did what it was asked to do: no answer came, or one that tells nothing.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unreachable { .. } | Self::Unreadable { .. })
    }

    /// Whether a webhook kept the server from it, with an answer that else tells nothing. Webhooks are asked before anything is
    /// written, so nothing was, and it may be this one object that they keep back.
    pub fn is_kept_back_by_webhook(&self) -> bool {
        let Self::Unavailable(refusal) = self else { return false };
        ["failed calling webhook", "conversion webhook for", "admission webhook"]
            .iter()
            .any(|sign| refusal.message.contains(sign))
    }

    /// Whether the object, its namespace or its type does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Whether an object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// Whether the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(reason: &str, code: u16) -> Error {
        Error::from_status("get pods shop/web", Status::failure("no", reason).with_code(code))
    }

    #[test]
    fn reasons_and_codes_lead_to_their_class() {
        assert!(matches!(classify("NotFound", 404), Error::NotFound(_)));
        assert!(matches!(classify("", 404), Error::NotFound(_)));
        assert!(matches!(classify("AlreadyExists", 409), Error::AlreadyExists(_)));
        assert!(matches!(classify("Conflict", 409), Error::Conflict(_)));
        assert!(matches!(classify("Forbidden", 403), Error::Forbidden(_)));
        assert!(matches!(classify("Unauthorized", 401), Error::Forbidden(_)));
        assert!(matches!(classify("Expired", 410), Error::Expired(_)));
        assert!(matches!(classify("TooManyRequests", 429), Error::TooManyRequests(_)));
        assert!(matches!(classify("Invalid", 422), Error::Invalid(_)));
        assert!(matches!(classify("InternalError", 500), Error::Unavailable(_)));
        assert!(matches!(classify("MethodNotAllowed", 405), Error::Other(_)));
    }

    #[test]
    fn only_passing_troubles_are_retryable() {
        assert!(classify("TooManyRequests", 429).is_retryable());
        assert!(classify("ServiceUnavailable", 503).is_retryable());
        assert!(!classify("Conflict", 409).is_retryable());
        assert!(!classify("Expired", 410).is_retryable());
    }

    #[test]
    fn what_a_webhook_keeps_back_is_known_not_to_be_written() {
        for (code, message, expected) in [
            (500, "Internal error occurred: failed calling webhook \"w\": the server has no answer", true),
            (500, "admission webhook \"w\" denied the request: no", true),
            (500, "conversion webhook for velero.io/v1, Kind=Backup failed: refused", true),
            (500, "etcdserver: request timed out", false),
            (403, "admission webhook \"w\" denied the request: no", false),
        ] {
            let error = Error::from_status("patch backups b", Status::failure(message, "").with_code(code));
            assert_eq!(error.is_kept_back_by_webhook(), expected, "{code} {message}");
        }
    }

    #[test]
    fn the_text_names_the_action_and_the_answer() {
        assert_eq!(classify("NotFound", 404).to_string(), "cannot get pods shop/web: no (status 404)");
    }
}
