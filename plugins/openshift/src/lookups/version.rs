//! The version of the API server, as `major.minor`.

use std::fmt;

use velero_cluster::Cluster;
use velero_plugin::{Error, Result};

/// The version of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Asks the server.
pub(super) async fn ask(cluster: &Cluster) -> Result<ServerVersion> {
    let version = cluster.server_version().await?;
    parse(&version.major, &version.minor, &version.whole)
}

/// The version from its parts, where OpenShift marks the minor one with a plus; else from the whole.
fn parse(major: &str, minor: &str, git_version: &str) -> Result<ServerVersion> {
    let of_parts = || Some(ServerVersion { major: major.parse().ok()?, minor: minor.trim_matches('+').parse().ok()? });
    let of_whole = || {
        let (_, numbers) = git_version.split_once('v')?;
        let mut numbers = numbers.split('.');
        let version = ServerVersion { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? };
        numbers.next().map(|_| version)
    };
    of_parts().or_else(of_whole).ok_or_else(|| {
        Error::Failed(format!("the version of the API server, {git_version:?}, does not have the form v1.2.3"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_parts_or_from_the_whole() {
        for (major, minor, whole, expected) in [
            ("1", "27", "v1.27.3", Some("1.27")),
            ("1", "11+", "v1.11.0+d4cacc0", Some("1.11")),
            ("1", "+11", "", Some("1.11")),
            ("", "", "v1.18.3+5302882", Some("1.18")),
            ("1", "x", "v1.17.1", Some("1.17")),
            ("", "", "openshift-v3.11.0", Some("3.11")),
            ("", "", "v1.18", None),
            ("", "", "1.18.3", None),
            ("", "", "", None),
        ] {
            let found = parse(major, minor, whole).ok().map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{major:?} {minor:?} {whole:?}");
        }
    }
}
