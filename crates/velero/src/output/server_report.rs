//! What `velero version` and `velero server status` print.

use std::fmt;

use anyhow::{Error, Result};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use velero_api::v1::ServerStatusRequest;

use super::clock::short_duration;
use super::describe::{Manner, describe_server};
use super::{Clock, Format, ServerDetails, print_value};
use crate::printer::Printer;
use crate::version::{GIT_COMMIT, VERSION};

/// What stands for a status where the definition of the request has no place for it.
const NO_STATUS: &str =
    "<unknown: the definition of ServerStatusRequest is an older one, update it by velero install --crds-only --apply>";

/// The status of a server that is gone.
const GONE: &str = "Gone";

/// When a server was last heard of: it renews its Lease every few seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Heard {
    /// The server that leads or led last; nobody when it has given its Lease back.
    pub(crate) leader: String,
    /// When it was last heard of.
    #[serde(rename = "lastHeardOf")]
    pub(crate) last: Timestamp,
    /// How long ago that was.
    #[serde(skip)]
    pub(crate) ago: SignedDuration,
    /// Whether it is there.
    #[serde(rename = "alive")]
    pub(crate) is_alive: bool,
}

impl Heard {
    /// How long ago it was, as in `2m ago`. Clocks may differ: nobody is heard of in the future.
    pub(crate) fn ago(&self) -> String {
        format!("{} ago", short_duration(self.ago.max(SignedDuration::ZERO)))
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leader = if self.leader.is_empty() { "it was stopped" } else { &self.leader };
        write!(formatter, "{} ({leader})", self.ago())
    }
}

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
        status: Option<String>,
        #[serde(flatten)]
        heard: Option<Heard>,
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

    /// This program and a server that says who it is, and when it was last heard of, if that is known.
    pub(crate) fn of_server(kept: &ServerStatusRequest, heard: Option<&Heard>) -> Self {
        let status = match heard {
            // What it wrote last is not what it is.
            Some(heard) if !heard.is_alive => Some(GONE.to_owned()),
            _ => kept.status.server_status.as_ref().map(|status| status.as_str().to_owned()),
        };
        let server = Server::Known { version: kept.status.server_version.clone(), status, heard: heard.cloned() };
        Self { server: Some(server), ..Self::of_client() }
    }

    /// This program and a server of which there is no sign but the status that it left.
    pub(crate) fn of_unheard_server(kept: &ServerStatusRequest) -> Self {
        let (version, status) = (kept.status.server_version.clone(), Some(GONE.to_owned()));
        Self { server: Some(Server::Known { version, status, heard: None }), ..Self::of_client() }
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
            Self::Known { version, status, heard } => {
                let status = status.as_deref().unwrap_or(NO_STATUS);
                let heard = heard.as_ref().map(|heard| format!("\tLast heard of: {heard}\n")).unwrap_or_default();
                let warning = outdated(client, version).map(|side| {
                    format!("# WARNING: the client version does not match the server version. Please update {side}\n")
                });
                format!("Server:\n\tVersion: {version}\n{heard}\tStatus: {status}\n{}", warning.unwrap_or_default())
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
    use velero_api::v1::ServerStatus;

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
        let partially = ServerReport::of_server(&kept(VERSION, Some(ServerStatus::PartiallyReady)), None);
        assert_eq!(text(&partially), format!("{client}Server:\n\tVersion: {VERSION}\n\tStatus: Partially Ready\n"));
        assert!(text(&ServerReport::of_server(&kept(VERSION, None), None)).contains("\tStatus: <unknown: "));
        let newer = ServerReport::of_server(&kept("v99.0.0", Some(ServerStatus::Ready)), None);
        assert!(text(&newer).ends_with(
            "\tStatus: Ready\n# WARNING: the client version does not match the server version. Please update client\n"
        ));
        let problem = ServerReport::of_problem(&anyhow!("gone"));
        assert_eq!(text(&problem), format!("{client}<error getting server version: gone>\n"));
    }

    #[test]
    fn a_server_that_is_gone_is_never_ready() {
        let heard = |leader: &str, seconds: i64, is_alive: bool| Heard {
            leader: leader.to_owned(),
            last: "2026-01-01T00:00:00Z".parse().unwrap(),
            ago: SignedDuration::from_secs(seconds),
            is_alive,
        };
        let kept = kept(VERSION, Some(ServerStatus::Ready));
        let server = |heard: Heard| ServerReport::of_server(&kept, Some(&heard));
        for (heard, expected) in [
            (heard("velero-1", 2, true), "\tLast heard of: 2s ago (velero-1)\n\tStatus: Ready\n"),
            (heard("velero-1", -2, true), "\tLast heard of: 0s ago (velero-1)\n\tStatus: Ready\n"),
            (heard("velero-1", 300, false), "\tLast heard of: 5m ago (velero-1)\n\tStatus: Gone\n"),
            (heard("", 7200, false), "\tLast heard of: 2h ago (it was stopped)\n\tStatus: Gone\n"),
        ] {
            let text = text(&server(heard));
            assert!(text.ends_with(expected), "{text}");
        }
        assert!(
            text(&ServerReport::of_unheard_server(&kept)).ends_with(&format!("\tVersion: {VERSION}\n\tStatus: Gone\n"))
        );
        let json = serde_json::to_value(server(heard("velero-1", 300, false))).unwrap();
        let expected = serde_json::json!({
            "version": VERSION, "status": "Gone", "leader": "velero-1", "lastHeardOf": "2026-01-01T00:00:00Z",
            "alive": false,
        });
        assert_eq!(json["server"], expected);
    }

    #[test]
    fn programs_read_the_same_as_people() {
        let json = |report: &ServerReport| serde_json::to_value(report).unwrap();
        let client = serde_json::json!({"version": VERSION, "gitCommit": GIT_COMMIT});
        let ready = json(&ServerReport::of_server(&kept("v1.2.3", Some(ServerStatus::Ready)), None));
        let expected = serde_json::json!({"client": client, "server": {"version": "v1.2.3", "status": "Ready"}});
        assert_eq!(ready, expected);
        assert_eq!(json(&ServerReport::of_problem(&anyhow!("gone")))["server"]["error"], "gone");
        assert_eq!(json(&ServerReport::of_client()), serde_json::json!({"client": client}));
    }
}
