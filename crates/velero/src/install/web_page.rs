//! The page of the server: its certificate, and the proxy that is believed.

use std::path::PathBuf;

use serde_json::json;
use velero_controllers::server::WebSettings;

use super::pod::Parts;
use super::{Installation, network};
use crate::arguments::PageArguments;

/// Where the certificate is mounted.
const FOLDER: &str = "/web-tls";

/// What the server is told.
pub(super) fn settings(page: &PageArguments) -> WebSettings {
    let file = |name: &str| PathBuf::from(format!("{FOLDER}/{name}"));
    let encrypted = !page.web_tls_secret.is_empty();
    WebSettings {
        web_tls_cert: encrypted.then(|| file("tls.crt")),
        web_tls_key: encrypted.then(|| file("tls.key")),
        web_client_ca: (encrypted && page.web_trusted_user_header.is_some()).then(|| file("ca.crt")),
        web_trusted_user_header: page.web_trusted_user_header.clone(),
        web_trusted_groups_header: page.web_trusted_groups_header.clone(),
    }
}

/// The flags of the server; none where there is no page.
pub(super) fn flags(installation: &Installation<'_>) -> Vec<String> {
    if !installation.arguments.server.web {
        return Vec::new();
    }
    let settings = settings(&installation.arguments.server.page);
    let path = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
    let given = [
        ("web-address", Some(format!(":{}", network::WEB_PORT))),
        ("web-tls-cert", path(settings.web_tls_cert)),
        ("web-tls-key", path(settings.web_tls_key)),
        ("web-client-ca", path(settings.web_client_ca)),
        ("web-trusted-user-header", settings.web_trusted_user_header),
        ("web-trusted-groups-header", settings.web_trusted_groups_header),
    ];
    given.into_iter().filter_map(|(flag, value)| Some(format!("--{flag}={}", value?))).collect()
}

/// Adds the certificate, where there is one.
pub(super) fn mount(parts: &mut Parts, installation: &Installation<'_>) {
    let secret = &installation.arguments.server.page.web_tls_secret;
    if !secret.is_empty() {
        let source = json!({ "secretName": secret, "defaultMode": 0o444 });
        parts.volume("web-tls", FOLDER, ("secret", source));
    }
}

/// Whether the server acts for people whom a proxy names.
pub(super) fn impersonates(installation: &Installation<'_>) -> bool {
    installation.arguments.server.page.web_trusted_user_header.is_some()
}
