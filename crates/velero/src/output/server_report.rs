//! What `velero version` and `velero server status` print.

use anyhow::{Error, Result};
use serde::Serialize;
use velero_api::v1::{ServerStatus, ServerStatusRequest};

use super::describe::{Manner, describe_server};
use super::{Clock, Format, ServerDetails, print_value};
use crate::printer::Printer;
use crate::version::{GIT_COMMIT, VERSION};

/// What stands for a status where the definition of the request has no place for it.
const NO_STATUS: &str =
    "<unknown: the definition of ServerStatusRequest is an older one, update it by velero install --crds-only --apply>";

/// This program, and the server as far as it is known.
#[derive(Debug, Serialize)]
pub(crate) struct ServerReport {
    client: Client,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
    /// More about the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<ServerDetails>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    version: &'static str,
    git_commit: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Server {
    Known {
        version: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<ServerStatus>,
    },
    Unknown {
        error: String,
    },
}

impl ServerReport {
    /// Only this program.
    pub(crate) fn of_client() -> Self {
        Self { client: Client { version: VERSION, git_commit: GIT_COMMIT }, server: None, details: None }
    }

    /// This program and a server that says who it is.
    pub(crate) fn of_server(kept: &ServerStatusRequest) -> Self {
        let server =
            Server::Known { version: kept.status.server_version.clone(), status: kept.status.server_status.clone() };
        Self { server: Some(server), ..Self::of_client() }
    }

    /// This program and why the server is not known.
    pub(crate) fn of_problem(error: &Error) -> Self {
        Self { server: Some(Server::Unknown { error: format!("{error:#}") }), ..Self::of_client() }
    }

    /// Prints it as text, unless another form is asked for.
    pub(crate) fn print(&self, printer: Printer, format: Option<Format>) -> Result<()> {
        match format {
            Some(format @ (Format::Json | Format::Yaml)) => print_value(printer, self, format),
            Some(Format::Table) | None => {
                let manner = Manner { clock: Clock::system(), style: printer.style, details: true };
                printer.print(self.text(&manner))
            }
        }
    }

    fn text(&self, manner: &Manner) -> String {
        let client = format!("Client:\n\tVersion: {}\n\tGit commit: {}\n", self.client.version, self.client.git_commit);
        let server = self.server.as_ref().map(|server| server.text(self.client.version)).unwrap_or_default();
        let details = self.details.as_ref().map(|details| format!("\n{}", describe_server(details, manner)));
        format!("{client}{server}{}", details.unwrap_or_default())
    }
}

impl Server {
    fn text(&self, client: &str) -> String {
        match self {
            Self::Unknown { error } => format!("<error getting server version: {error}>\n"),
            Self::Known { version, status } => {
                let status = status.as_ref().map_or(NO_STATUS, ServerStatus::as_str);
                let warning = outdated(client, version).map(|side| {
                    format!("# WARNING: the client version does not match the server version. Please update {side}\n")
                });
                format!("Server:\n\tVersion: {version}\n\tStatus: {status}\n{}", warning.unwrap_or_default())
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
    use anyhow::anyhow;

    use super::*;
    use crate::printer::Style;

    fn text(report: &ServerReport) -> String {
        report.text(&Manner { clock: Clock::system(), style: Style::default(), details: true })
    }

    fn kept(version: &str, status: Option<ServerStatus>) -> ServerStatusRequest {
        let mut kept = ServerStatusRequest::new("velero", "velero-server-status", Default::default());
        kept.status.server_version = version.to_owned();
        kept.status.server_status = status;
        kept
    }

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

    #[test]
    fn both_sides_are_shown_with_what_is_known_of_them() {
        let client = format!("Client:\n\tVersion: {VERSION}\n\tGit commit: {GIT_COMMIT}\n");
        assert_eq!(text(&ServerReport::of_client()), client);
        let partially = ServerReport::of_server(&kept(VERSION, Some(ServerStatus::PartiallyReady)));
        assert_eq!(text(&partially), format!("{client}Server:\n\tVersion: {VERSION}\n\tStatus: Partially Ready\n"));
        assert!(text(&ServerReport::of_server(&kept(VERSION, None))).contains("\tStatus: <unknown: "));
        let newer = ServerReport::of_server(&kept("v99.0.0", Some(ServerStatus::Ready)));
        assert!(text(&newer).ends_with(
            "\tStatus: Ready\n# WARNING: the client version does not match the server version. Please update client\n"
        ));
        let problem = ServerReport::of_problem(&anyhow!("gone"));
        assert_eq!(text(&problem), format!("{client}<error getting server version: gone>\n"));
    }

    #[test]
    fn programs_read_the_same_as_people() {
        let json = |report: &ServerReport| serde_json::to_value(report).unwrap();
        let client = serde_json::json!({"version": VERSION, "gitCommit": GIT_COMMIT});
        let ready = json(&ServerReport::of_server(&kept("v1.2.3", Some(ServerStatus::Ready))));
        let expected = serde_json::json!({"client": client, "server": {"version": "v1.2.3", "status": "Ready"}});
        assert_eq!(ready, expected);
        assert_eq!(json(&ServerReport::of_problem(&anyhow!("gone")))["server"]["error"], "gone");
        assert_eq!(json(&ServerReport::of_client()), serde_json::json!({"client": client}));
    }
}
