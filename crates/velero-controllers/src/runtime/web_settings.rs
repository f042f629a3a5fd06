//! The flags of `velero server` about TLS on the port of the page, and about a proxy in front of it that says who asks.

use std::path::PathBuf;

use clap::Args;
use http::HeaderName;
use velero_web::TlsFiles;

use crate::runtime::error::{Error, Result};

/// How the page is encrypted, and which proxy is believed.
#[derive(Args, Clone, Debug, Default)]
pub struct WebSettings {
    /// File with the certificate of the page, in PEM; without it the page is not encrypted
    #[arg(long)]
    pub web_tls_cert: Option<PathBuf>,

    /// File with the key of that certificate, in PEM
    #[arg(long)]
    pub web_tls_key: Option<PathBuf>,

    /// File with the authority of the proxy in front of the page, in PEM: who shows a certificate of it may say who asks
    #[arg(long)]
    pub web_client_ca: Option<PathBuf>,

    /// Header in which that proxy says who asks; the server then acts for that user by impersonation
    #[arg(long)]
    pub web_trusted_user_header: Option<String>,

    /// Header in which that proxy names the groups of who asks, separated by commas
    #[arg(long)]
    pub web_trusted_groups_header: Option<String>,
}

/// The headers in which a proxy says who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrustedHeaders {
    pub(crate) user: HeaderName,
    pub(crate) groups: Option<HeaderName>,
}

impl WebSettings {
    /// Refuses half of what is needed: a proxy is believed only over TLS and with a certificate.
    pub(crate) fn validate(&self, address: &str) -> Result<()> {
        let is_given = [
            ("web-tls-cert", self.web_tls_cert.is_some()),
            ("web-tls-key", self.web_tls_key.is_some()),
            ("web-client-ca", self.web_client_ca.is_some()),
            ("web-trusted-user-header", self.web_trusted_user_header.is_some()),
            ("web-trusted-groups-header", self.web_trusted_groups_header.is_some()),
        ];
        if let Some((flag, _)) = is_given.iter().find(|(_, given)| *given && address.is_empty()) {
            return Err(setting(flag, "there is no page: give --web-address too"));
        }
        let needs = [
            ("web-tls-cert", "web-tls-key"),
            ("web-tls-key", "web-tls-cert"),
            ("web-client-ca", "web-tls-cert"),
            ("web-client-ca", "web-trusted-user-header"),
            ("web-trusted-user-header", "web-client-ca"),
            ("web-trusted-groups-header", "web-trusted-user-header"),
        ];
        let given = |flag: &str| is_given.iter().any(|(name, given)| *name == flag && *given);
        match needs.into_iter().find(|(flag, needed)| given(flag) && !given(needed)) {
            Some((flag, needed)) => Err(setting(flag, &format!("it does nothing without --{needed}: give that too"))),
            None => self.trusted_headers().map(drop),
        }
    }

    /// The files of TLS, where the page is encrypted.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.web_tls_cert.clone()?, self.web_tls_key.clone()?);
        Some(TlsFiles { certificate, key, client_authority: self.web_client_ca.clone() })
    }

    /// The headers of the proxy, where one is believed.
    pub(crate) fn trusted_headers(&self) -> Result<Option<TrustedHeaders>> {
        let Some(user) = &self.web_trusted_user_header else { return Ok(None) };
        let user = header("web-trusted-user-header", user)?;
        let groups = self.web_trusted_groups_header.as_deref();
        let groups = groups.map(|name| header("web-trusted-groups-header", name)).transpose()?;
        if groups.as_ref() == Some(&user) {
            return Err(setting("web-trusted-groups-header", "it is the header of the user: name another one"));
        }
        Ok(Some(TrustedHeaders { user, groups }))
    }
}

fn header(flag: &'static str, name: &str) -> Result<HeaderName> {
    name.parse().map_err(|_| setting(flag, &format!("{name:?} is no name of a header, as X-Forwarded-User is one")))
}

fn setting(flag: &'static str, problem: &str) -> Error {
    Error::Setting { flag, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 5] = ["cert", "key", "ca", "X-Forwarded-User", "X-Forwarded-Groups"];

    /// Settings with those of the values whose place is named.
    fn with(places: &[usize], values: [&str; 5]) -> WebSettings {
        let value = |place: usize| places.contains(&place).then(|| values[place].to_owned());
        WebSettings {
            web_tls_cert: value(0).map(PathBuf::from),
            web_tls_key: value(1).map(PathBuf::from),
            web_client_ca: value(2).map(PathBuf::from),
            web_trusted_user_header: value(3),
            web_trusted_groups_header: value(4),
        }
    }

    #[test]
    fn a_proxy_is_believed_with_all_that_is_needed_or_not_at_all() {
        for places in [&[][..], &[0, 1], &[0, 1, 2, 3], &[0, 1, 2, 3, 4]] {
            with(places, ALL).validate(":8086").unwrap();
        }
        for (places, flag, needed) in [
            (&[0][..], "web-tls-cert", "--web-tls-key"),
            (&[1], "web-tls-key", "--web-tls-cert"),
            (&[3], "web-trusted-user-header", "--web-client-ca"),
            (&[0, 1, 3], "web-trusted-user-header", "--web-client-ca"),
            (&[2, 3], "web-client-ca", "--web-tls-cert"),
            (&[0, 1, 2], "web-client-ca", "--web-trusted-user-header"),
            (&[0, 1, 4], "web-trusted-groups-header", "--web-trusted-user-header"),
        ] {
            let problem = with(places, ALL).validate(":8086").unwrap_err().to_string();
            assert!(problem.contains(flag) && problem.contains(needed), "{places:?}: {problem}");
        }
        let problem = with(&[0, 1], ALL).validate("").unwrap_err().to_string();
        assert!(problem.contains("--web-address"), "{problem}");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (user, groups) in [("", "X-Groups"), ("two words", "X-Groups"), ("X-User", "ä"), ("X-User", "x-user")] {
            let settings = with(&[0, 1, 2, 3, 4], ["cert", "key", "ca", user, groups]);
            assert!(settings.validate(":8086").is_err(), "{user:?} {groups:?}");
        }
        assert_eq!(with(&[0, 1], ALL).trusted_headers().unwrap(), None);
        let headers = with(&[0, 1, 2, 3], ALL).trusted_headers().unwrap().unwrap();
        assert_eq!((headers.user.as_str(), headers.groups), ("x-forwarded-user", None));
    }
}
