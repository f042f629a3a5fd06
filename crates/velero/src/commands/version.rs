//! `velero version`

use anyhow::Result;

use super::server_status::server_status;
use crate::arguments::VersionArguments;
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;
use crate::version::{GIT_COMMIT, VERSION};

/// Prints the version of this program and, unless told not to, of the server.
pub(super) async fn version(arguments: &VersionArguments, settings: &Settings, printer: Printer) -> Result<()> {
    let session = match arguments.client_only {
        true => None,
        false => Some(Session::connect(settings, printer).await?),
    };
    printer.print(format_args!("Client:\n\tVersion: {VERSION}\n\tGit commit: {GIT_COMMIT}\n"))?;
    let Some(session) = session else { return Ok(()) };
    match server_status(&session, arguments.status.timeout.to_std()).await {
        Err(error) => printer.line(format_args!("<error getting server version: {error:#}>")),
        Ok(status) => {
            let server = &status.status.server_version;
            printer.print(format_args!("Server:\n\tVersion: {server}\n"))?;
            match outdated(VERSION, server) {
                None => Ok(()),
                Some(side) => printer.line(format_args!(
                    "# WARNING: the client version does not match the server version. Please update {side}"
                )),
            }
        }
    }
}

/// The side with the lower major and minor version, if they differ.
fn outdated(client: &str, server: &str) -> Option<&'static str> {
    match major_minor(client).cmp(&major_minor(server)) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some("client"),
        std::cmp::Ordering::Greater => Some("server"),
    }
}

/// The first two numbers of `v1.18.3`; nothing for a text that is no version.
fn major_minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.strip_prefix('v')?.split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_version_is_to_be_updated() {
        for (client, server, expected) in [
            ("v1.18.3", "v1.18.0", None),
            ("v1.9.0", "v1.18.0", Some("client")),
            ("v2.0.0", "v1.18.0", Some("server")),
            ("v1.18.0", "main", Some("server")),
        ] {
            assert_eq!(outdated(client, server), expected, "{client} {server}");
        }
    }
}
