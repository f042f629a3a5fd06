//! How a registry is reached: who we are, and what we accept from it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How one registry is reached. The default is anonymous, over TLS that the system's authorities vouch for.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Who we are.
    pub credentials: Credentials,
    /// Authorities to trust beside those of the system, as PEM.
    pub certificate_authorities: Option<String>,
    /// Accept any certificate.
    pub insecure_tls: bool,
    /// Where the registry does not speak TLS, speak plain HTTP.
    pub plain_http: bool,
}

/// Who we are to a registry. The registry decides how it wants to be told: directly or through its token service.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nobody.
    #[default]
    Anonymous,
    /// A user with a password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// A token that the registry takes as it is.
    Bearer(String),
}

impl Credentials {
    /// The user `ignored` with the token of a service account: what OpenShift's registry expects.
    pub fn service_account(token: impl Into<String>) -> Self {
        Self::Basic { username: "ignored".into(), password: token.into() }
    }

    /// The value of the header that carries a user and a password.
    pub(crate) fn basic_header(&self) -> Option<String> {
        match self {
            Self::Basic { username, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Credentials {
    /// Shows no secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => formatter.write_str("Anonymous"),
            Self::Basic { username, .. } => write!(formatter, "Basic({username})"),
            Self::Bearer(_) => formatter.write_str("Bearer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_never_show_their_secret() {
        let access = Access { credentials: Credentials::service_account("hush"), ..Access::default() };
        assert!(!format!("{access:?}{:?}", Credentials::Bearer("hush".into())).contains("hush"));
    }
}
