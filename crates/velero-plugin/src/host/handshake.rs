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

/// Reads `core version|protocol version|network|address|protocol|…`.
pub(crate) fn parse(line: &str) -> Result<Address, String> {
    let parts: Vec<_> = line.trim().split('|').collect();
    let [core, version, network, address, rest @ ..] = parts.as_slice() else {
        let start: String = line.trim().chars().take(200).collect();
        return Err(format!("{start:?} is not the first line of a plugin; is this file a plugin for Velero?"));
    };
    if *core != "1" {
        return Err(format!("it speaks version {core:?} of the core protocol instead of 1; rebuild it"));
    }
    if *version != "2" {
        return Err(format!("it speaks version {version:?} of the plugin protocol instead of 2; use a newer plugin"));
    }
    let protocol = rest.first().copied().unwrap_or("netrpc");
    if protocol != "grpc" {
        return Err(format!("it speaks {protocol:?} instead of grpc; use a newer plugin"));
    }
    match *network {
        "unix" => Ok(Address::Unix(PathBuf::from(address))),
        "tcp" => Ok(Address::Tcp((*address).to_owned())),
        other => Err(format!("it listens on a network {other:?}; unix and tcp are known")),
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
            let error = parse(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
