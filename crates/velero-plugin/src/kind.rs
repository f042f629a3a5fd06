//! The kinds of plugins, and what names one plugin.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What a plugin is, as a plugin binary lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginKind {
    /// Keeps the files of backups.
    ObjectStore,
    /// Takes snapshots of volumes.
    VolumeSnapshotter,
    /// Takes snapshots of volumes that are uploaded after the call.
    VolumeSnapshotterV2,
    /// Takes part in the backup of an item.
    BackupItemAction,
    /// Takes part in the backup of an item and may start operations.
    BackupItemActionV2,
    /// Takes part in the restore of an item.
    RestoreItemAction,
    /// Takes part in the restore of an item and may start operations.
    RestoreItemActionV2,
    /// Takes part in the deletion of a backup.
    DeleteItemAction,
    /// Says what must be backed up together.
    ItemBlockAction,
}

impl PluginKind {
    /// All kinds, in the order a plugin binary lists them.
    pub const ALL: [Self; 9] = [
        Self::BackupItemAction,
        Self::BackupItemActionV2,
        Self::VolumeSnapshotter,
        Self::VolumeSnapshotterV2,
        Self::ObjectStore,
        Self::RestoreItemAction,
        Self::RestoreItemActionV2,
        Self::DeleteItemAction,
        Self::ItemBlockAction,
    ];

    /// The kind as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ObjectStore => "ObjectStore",
            Self::VolumeSnapshotter => "VolumeSnapshotter",
            Self::VolumeSnapshotterV2 => "VolumeSnapshotterV2",
            Self::BackupItemAction => "BackupItemAction",
            Self::BackupItemActionV2 => "BackupItemActionV2",
            Self::RestoreItemAction => "RestoreItemAction",
            Self::RestoreItemActionV2 => "RestoreItemActionV2",
            Self::DeleteItemAction => "DeleteItemAction",
            Self::ItemBlockAction => "ItemBlockAction",
        }
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that names no kind of plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of plugin")]
pub struct UnknownKind(String);

impl FromStr for PluginKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// One plugin of a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginIdentifier {
    /// The binary that brings it.
    pub command: PathBuf,
    /// What it is.
    pub kind: PluginKind,
    /// Its name, such as `velero.io/aws`.
    pub name: String,
}

/// The full name of a plugin: one without a slash is of `velero.io`.
pub(crate) fn full_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("velero.io/{name}") }
}

/// Whether a name has the form `<DNS subdomain>/<name>`.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let label = |part: &str| {
        let inner = part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    match name.split_once('/') {
        Some((domain, rest)) => {
            domain.len() <= 253 && domain.split('.').all(label) && !rest.is_empty() && !rest.contains('/')
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        for kind in PluginKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert!("PluginLister".parse::<PluginKind>().is_err());
    }

    #[test]
    fn names_have_a_domain_and_one_slash() {
        for (name, valid) in [
            ("velero.io/pod", true),
            ("example.com/my_Action", true),
            ("pod", false),
            ("/pod", false),
            ("velero.io/", false),
            ("velero.io/a/b", false),
            ("Velero.io/pod", false),
            ("-a.io/pod", false),
        ] {
            assert_eq!(is_valid_name(name), valid, "{name}");
        }
    }

    #[test]
    fn a_name_without_a_domain_is_of_velero() {
        assert_eq!(full_name("aws"), "velero.io/aws");
        assert_eq!(full_name("example.com/aws"), "example.com/aws");
    }
}
