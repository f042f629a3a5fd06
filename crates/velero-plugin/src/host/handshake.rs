//! The line with which a plugin says where it listens.

use std::path::PathBuf;

/// What the host sets in the environment of a plugin, besides everything it has itself.
pub(crate) const ENVIRONMENT: [(&str, &str); 4] = [
    ("VELERO_PLUGIN", "hello"),
    ("PLUGIN_PROTOCOL_VERSIONS", "2"),
    ("PLUGIN_MIN_PORT", "10000"),
    ("PLUGIN_MAX_PORT", "25000"),
];

/// The variable that names the folder in which a plugin makes its socket.
pub(crate) const SOCKET_FOLDER: &str = "PLUGIN_UNIX_SOCKET_DIR";

/// Set by hosts that know kinds which Velero does not have, to the names of these kinds. Velero refuses a binary that
/// lists a kind it does not know, so a plugin lists them only when it finds them here.
pub(crate) const FURTHER_KINDS: (&str, &str) = ("VELERO_PLUGIN_FURTHER_KINDS", "VolumeSnapshotterV2");

/// Where a plugin listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(String),
}

/// Why nobody can talk to what said a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// It is another program.
    #[error("{0:?} is not the first line of a plugin; is this file a plugin for Velero?")]
    NotOfAPlugin(String),
    /// It agrees on protocols in another way.
    #[error("it speaks version {0:?} of the core protocol instead of 1; rebuild it")]
    CoreVersion(String),
    /// It is made for another version of the protocol.
    #[error("it speaks version {0:?} of the plugin protocol instead of 2; use a newer plugin")]
    PluginVersion(String),
    /// It does not speak gRPC.
    #[error("it speaks {0:?} instead of grpc; use a newer plugin")]
    Protocol(String),
    /// It listens where nobody can go.
    #[error("it listens on a network {0:?}; unix and tcp are known")]
    Network(String),
}

/// Reads `core version|protocol version|network|address|protocol|…`.
pub(crate) fn parse(line: &str) -> Result<Address, HandshakeError> {
    let parts: Vec<_> = line.trim().split('|').collect();
    let [core, version, network, address, rest @ ..] = parts.as_slice() else {
        let start: String = line.trim().chars().take(200).collect();
        return Err(HandshakeError::NotOfAPlugin(start));
    };
    if *core != "1" {
        return Err(HandshakeError::CoreVersion((*core).to_owned()));
    }
    if *version != "2" {
        return Err(HandshakeError::PluginVersion((*version).to_owned()));
    }
    let protocol = rest.first().copied().unwrap_or("netrpc");
    if protocol != "grpc" {
        return Err(HandshakeError::Protocol(protocol.to_owned()));
    }
    match *network {
        "unix" => Ok(Address::Unix(PathBuf::from(address))),
        "tcp" => Ok(Address::Tcp((*address).to_owned())),
        other => Err(HandshakeError::Network(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_networks_are_understood() {
        let unix = Address::Unix(PathBuf::from("/tmp/plugin1"));
        assert_eq!(parse("1|2|unix|/tmp/plugin1|grpc|\n"), Ok(unix.clone()));
        assert_eq!(parse("1|2|unix|/tmp/plugin1|grpc||true"), Ok(unix));
        assert_eq!(parse("1|2|tcp|127.0.0.1:10000|grpc"), Ok(Address::Tcp("127.0.0.1:10000".to_owned())));
    }

    #[test]
    fn another_version_protocol_or_form_is_refused_with_the_reason() {
        for (line, reason) in [
            ("hello world", "hello world"),
            ("", "not the first line"),
            ("2|2|unix|/s|grpc", "core protocol"),
            ("1|1|unix|/s|grpc", "version \"1\" of the plugin protocol"),
            ("1|2|unix|/s", "netrpc"),
            ("1|2|unix|/s|netrpc", "netrpc"),
            ("1|2|pigeon|/s|grpc", "pigeon"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
