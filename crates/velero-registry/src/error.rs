//! What can go wrong while an image is copied, and whether trying again may help.

use std::time::Duration;

use reqwest::StatusCode;

/// Errors of registries that pass: on an object store a blob may be seen only a moment after it was taken, and an upload
/// that was lost can be begun anew.
const PASSING_CODES: &[&str] = &["MANIFEST_BLOB_UNKNOWN", "BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID"];

/// Why an image was not copied.
#[derive(Debug, thiserror::Error)]
#[error("image {image}: {problem}")]
pub struct CopyError {
    /// The image, as its reference is written: the source or the destination, whichever failed.
    pub image: String,
    /// What happened.
    #[source]
    pub problem: Problem,
}

impl CopyError {
    /// Whether the same copy may succeed later.
    pub fn is_retriable(&self) -> bool {
        self.problem.is_retriable()
    }

    /// Whether the copy ended because it was told to.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.problem, Problem::Cancelled)
    }
}

/// What went wrong with a registry, a reference or a manifest.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// An image reference that cannot be understood.
    #[error("image reference {reference:?} cannot be understood: {reason}")]
    InvalidReference {
        /// The reference as given.
        reference: String,
        /// What is wrong with it and what to write instead.
        reason: String,
    },
    /// A setting that cannot be used.
    #[error("{what} cannot be used: {reason}")]
    InvalidSetting {
        /// The setting.
        what: String,
        /// What is wrong with it and what to write instead.
        reason: String,
    },
    /// No connection to the registry.
    #[error("registry {registry} cannot be reached: {reason}; check its address and that it runs")]
    Unreachable {
        /// The registry.
        registry: String,
        /// What the network said.
        reason: String,
    },
    /// The registry's certificate is not trusted.
    #[error("registry {registry} is not trusted: {reason}; give its certificate authority, or allow insecure TLS")]
    Untrusted {
        /// The registry.
        registry: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The connection broke off or stood still.
    #[error("registry {registry} broke off while asked to {action}: {reason}")]
    Interrupted {
        /// The registry.
        registry: String,
        /// What was tried.
        action: String,
        /// What the network said.
        reason: String,
    },
    /// The registry does not let these credentials do that.
    #[error(
        "registry {registry} does not allow to {action}: {status}{message}; check the credentials and their rights"
    )]
    Denied {
        /// The registry.
        registry: String,
        /// What was tried.
        action: String,
        /// Its answer.
        status: StatusCode,
        /// What it said in addition.
        message: String,
    },
    /// The registry lacks something that is needed.
    #[error("registry {registry} does not have {what}; it was never pushed there or was pruned: push the image again")]
    NotFound {
        /// The registry.
        registry: String,
        /// What is missing.
        what: String,
    },
    /// The registry answered something that leads nowhere.
    #[error("registry {registry} refused to {action}: {status}{message}")]
    Refused {
        /// The registry.
        registry: String,
        /// What was tried.
        action: String,
        /// Its answer.
        status: StatusCode,
        /// What it said in addition.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The bytes are not those their digest promises.
    #[error("registry {registry} sent {what} damaged: {reason}; push the image again")]
    Damaged {
        /// The registry.
        registry: String,
        /// What was read.
        what: String,
        /// How it differs.
        reason: String,
    },
    /// An image of a kind that cannot be copied.
    #[error("it cannot be copied: {reason}")]
    Unsupported {
        /// What stands in the way, and what helps.
        reason: String,
    },
    /// The copy was told to stop.
    #[error("the copy was cancelled")]
    Cancelled,
}

impl Problem {
    /// Whether the same request may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } => true,
            Self::Refused { status, message, .. } => {
                status.is_server_error()
                    || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(status)
                    || PASSING_CODES.iter().any(|code| message.contains(code))
            }
            _ => false,
        }
    }

    /// How long the registry wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Says what a failed request means.
    pub(crate) fn of_request(registry: &str, action: &str, error: &reqwest::Error) -> Self {
        let (registry, reason) = (registry.to_owned(), innermost(error));
        if reason.contains("certificate") {
            Self::Untrusted { registry, reason }
        } else if reason.contains("InvalidContentType") {
            let reason = "it does not speak TLS, and plain HTTP is not allowed".into();
            Self::InvalidSetting { what: format!("registry {registry}"), reason }
        } else if error.is_redirect() {
            Self::InvalidSetting { what: format!("registry {registry}"), reason }
        } else if error.is_connect() {
            Self::Unreachable { registry, reason }
        } else {
            Self::Interrupted { registry, action: action.to_owned(), reason }
        }
    }

    pub(crate) fn for_image(self, image: &impl ToString) -> CopyError {
        CopyError { image: image.to_string(), problem: self }
    }
}

/// The innermost reason: the outer ones repeat the address and say less.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_succeed_later_is_tried_again() {
        let refused = |status: u16, message: &str| Problem::Refused {
            registry: "r".into(),
            action: "look".into(),
            status: StatusCode::from_u16(status).unwrap(),
            message: message.into(),
            retry_after: None,
        };
        for (status, message, retriable) in [
            (500, "", true),
            (503, "", true),
            (429, "", true),
            (408, "", true),
            (400, "", false),
            (404, "", false),
            (413, "", false),
            (404, " (BLOB_UPLOAD_UNKNOWN: blob upload unknown to registry)", true),
            (400, " (DIGEST_INVALID: provided digest did not match uploaded content)", false),
            (400, " (MANIFEST_BLOB_UNKNOWN: blob unknown to registry)", true),
        ] {
            assert_eq!(refused(status, message).is_retriable(), retriable, "{status}{message}");
        }
        let registry = String::from("r");
        let denied = Problem::Denied {
            registry: registry.clone(),
            action: "look".into(),
            status: StatusCode::UNAUTHORIZED,
            message: String::new(),
        };
        let what = String::from("blob");
        let damaged = Problem::Damaged { registry: registry.clone(), what: what.clone(), reason: String::new() };
        for problem in [denied, damaged, Problem::NotFound { registry, what }, Problem::Cancelled] {
            assert!(!problem.is_retriable(), "{problem}");
        }
    }
}
