//! Object keys: where each file of a backup or restore lives under a location's prefix.

use crate::{Error, Result};

/// The folders that may exist at the top of a location.
pub const TOP_LEVEL_FOLDERS: [&str; 6] = ["backups", "restores", "restic", "metadata", "plugins", "kopia"];

/// A file that belongs to one backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackupFile {
    /// The Backup resource as indented JSON; its presence makes the backup exist.
    Metadata,
    /// Whose backup is being written here; gone once the metadata exists.
    Reservation,
    /// The tarball of items.
    Contents,
    /// The tarball that is to take the place of the other, while it does.
    NextContents,
    /// The compressed log.
    Log,
    /// The PodVolumeBackup resources of the backup.
    PodVolumeBackups,
    /// The native volume snapshots.
    VolumeSnapshots,
    /// The asynchronous item operations.
    ItemOperations,
    /// The names of everything in the tarball, by kind.
    ResourceList,
    /// Errors and warnings.
    Results,
    /// How each volume was treated.
    VolumeInfos,
    /// CSI VolumeSnapshots; only read, written by Velero up to 1.13.
    CsiVolumeSnapshots,
    /// CSI VolumeSnapshotContents; only read, written by Velero up to 1.13.
    CsiVolumeSnapshotContents,
    /// CSI VolumeSnapshotClasses; only read, written by Velero up to 1.13.
    CsiVolumeSnapshotClasses,
}

impl BackupFile {
    /// Every file a backup may have.
    pub const ALL: [Self; 14] = [
        Self::Metadata,
        Self::Reservation,
        Self::Contents,
        Self::NextContents,
        Self::Log,
        Self::PodVolumeBackups,
        Self::VolumeSnapshots,
        Self::ItemOperations,
        Self::ResourceList,
        Self::Results,
        Self::VolumeInfos,
        Self::CsiVolumeSnapshots,
        Self::CsiVolumeSnapshotContents,
        Self::CsiVolumeSnapshotClasses,
    ];

    fn file_name(self, backup: &str) -> String {
        let suffix = match self {
            Self::Metadata => return "velero-backup.json".to_owned(),
            Self::Reservation => return "velero-backup-reservation.json".to_owned(),
            Self::Contents => ".tar.gz",
            Self::NextContents => "-next.tar.gz",
            Self::Log => "-logs.gz",
            Self::PodVolumeBackups => "-podvolumebackups.json.gz",
            Self::VolumeSnapshots => "-volumesnapshots.json.gz",
            Self::ItemOperations => "-itemoperations.json.gz",
            Self::ResourceList => "-resource-list.json.gz",
            Self::Results => "-results.gz",
            Self::VolumeInfos => "-volumeinfo.json.gz",
            Self::CsiVolumeSnapshots => "-csi-volumesnapshots.json.gz",
            Self::CsiVolumeSnapshotContents => "-csi-volumesnapshotcontents.json.gz",
            Self::CsiVolumeSnapshotClasses => "-csi-volumesnapshotclasses.json.gz",
        };
        format!("{backup}{suffix}")
    }
}

/// A file that belongs to one restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestoreFile {
    /// The compressed log.
    Log,
    /// Errors and warnings.
    Results,
    /// What was restored, by kind, with the action taken.
    ResourceList,
    /// The asynchronous item operations.
    ItemOperations,
    /// How each volume was restored.
    VolumeInfo,
}

impl RestoreFile {
    /// Every file a restore may have.
    pub const ALL: [Self; 5] = [Self::Log, Self::Results, Self::ResourceList, Self::ItemOperations, Self::VolumeInfo];

    fn file_name(self, restore: &str) -> String {
        match self {
            Self::Log => format!("restore-{restore}-logs.gz"),
            Self::Results => format!("restore-{restore}-results.gz"),
            Self::ResourceList => format!("restore-{restore}-resource-list.json.gz"),
            Self::ItemOperations => format!("restore-{restore}-itemoperations.json.gz"),
            Self::VolumeInfo => format!("{restore}-volumeinfo.json.gz"),
        }
    }
}

/// The object keys of one location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKeys {
    root: String,
}

impl ObjectKeys {
    /// Keys below `prefix`. Slashes at its ends and twice in a row do not matter, nor does a folder `.`: so Velero joins
    /// paths.
    pub fn new(prefix: &str) -> Self {
        let mut root = String::new();
        for folder in prefix.split('/').filter(|folder| !matches!(*folder, "" | ".")) {
            root.push_str(folder);
            root.push('/');
        }
        Self { root }
    }

    /// The prefix all keys share: empty, or ending in a slash.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The folder that holds one folder for each backup, ending in a slash.
    pub fn backups_folder(&self) -> String {
        format!("{}backups/", self.root)
    }

    /// The folder that holds reports, ending in a slash. Velero takes nothing below `metadata/` for a backup, and nothing at the
    /// top for its own that it does not know.
    pub fn reports_folder(&self) -> String {
        format!("{}metadata/reports/", self.root)
    }

    /// The key of one report.
    pub fn report_file(&self, report: &str) -> Result<String> {
        check_name("report", report)?;
        Ok(self.reports_folder() + report)
    }

    /// The folder of one backup, ending in a slash.
    pub fn backup_folder(&self, backup: &str) -> Result<String> {
        check_name("backup", backup)?;
        Ok(format!("{}backups/{backup}/", self.root))
    }

    /// The folder of one restore, ending in a slash.
    pub fn restore_folder(&self, restore: &str) -> Result<String> {
        check_name("restore", restore)?;
        Ok(format!("{}restores/{restore}/", self.root))
    }

    /// The key of one file of a backup.
    pub fn backup_file(&self, backup: &str, file: BackupFile) -> Result<String> {
        Ok(self.backup_folder(backup)? + &file.file_name(backup))
    }

    /// The key of one file of a restore.
    pub fn restore_file(&self, restore: &str, file: RestoreFile) -> Result<String> {
        Ok(self.restore_folder(restore)? + &file.file_name(restore))
    }
}

/// A name with a slash or dots would address another backup's folder, an empty one the folder of all.
fn check_name(kind: &'static str, name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        "." | ".." => "it is a relative folder",
        _ if name.contains(['/', '\\']) => "it contains a slash",
        _ if name.chars().any(char::is_control) => "it contains a control character",
        _ => return Ok(()),
    };
    Err(Error::InvalidName { kind, name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_lie_in_a_folder_that_velero_tolerates() {
        let keys = ObjectKeys::new("team/a");
        assert_eq!(keys.report_file("r.html").unwrap(), "team/a/metadata/reports/r.html");
        assert!(TOP_LEVEL_FOLDERS.contains(&"metadata"));
        assert!(keys.report_file("../r.html").is_err());
    }

    #[test]
    fn backup_keys_are_those_of_velero_and_two_of_ours_while_it_is_written() {
        let keys = ObjectKeys::new("/team/a/");
        let expected = [
            (BackupFile::Metadata, "velero-backup.json"),
            (BackupFile::Reservation, "velero-backup-reservation.json"),
            (BackupFile::Contents, "b1.tar.gz"),
            (BackupFile::NextContents, "b1-next.tar.gz"),
            (BackupFile::Log, "b1-logs.gz"),
            (BackupFile::PodVolumeBackups, "b1-podvolumebackups.json.gz"),
            (BackupFile::VolumeSnapshots, "b1-volumesnapshots.json.gz"),
            (BackupFile::ItemOperations, "b1-itemoperations.json.gz"),
            (BackupFile::ResourceList, "b1-resource-list.json.gz"),
            (BackupFile::Results, "b1-results.gz"),
            (BackupFile::VolumeInfos, "b1-volumeinfo.json.gz"),
            (BackupFile::CsiVolumeSnapshots, "b1-csi-volumesnapshots.json.gz"),
            (BackupFile::CsiVolumeSnapshotContents, "b1-csi-volumesnapshotcontents.json.gz"),
            (BackupFile::CsiVolumeSnapshotClasses, "b1-csi-volumesnapshotclasses.json.gz"),
        ];
        assert_eq!(expected.len(), BackupFile::ALL.len());
        for (file, name) in expected {
            assert_eq!(keys.backup_file("b1", file).unwrap(), format!("team/a/backups/b1/{name}"));
        }
    }

    #[test]
    fn prefixes_are_joined_as_velero_joins_paths() {
        for (prefix, root) in [
            ("", ""),
            ("/", ""),
            ("team", "team/"),
            ("/team/a/", "team/a/"),
            ("team//a", "team/a/"),
            ("./team/./a", "team/a/"),
            ("team/../a", "team/../a/"),
            ("team .a", "team .a/"),
        ] {
            assert_eq!(ObjectKeys::new(prefix).root(), root, "{prefix:?}");
        }
    }

    #[test]
    fn restore_keys_are_those_of_velero() {
        let keys = ObjectKeys::new("");
        let expected = [
            (RestoreFile::Log, "restores/r1/restore-r1-logs.gz"),
            (RestoreFile::Results, "restores/r1/restore-r1-results.gz"),
            (RestoreFile::ResourceList, "restores/r1/restore-r1-resource-list.json.gz"),
            (RestoreFile::ItemOperations, "restores/r1/restore-r1-itemoperations.json.gz"),
            (RestoreFile::VolumeInfo, "restores/r1/r1-volumeinfo.json.gz"),
        ];
        assert_eq!(expected.len(), RestoreFile::ALL.len());
        for (file, key) in expected {
            assert_eq!(keys.restore_file("r1", file).unwrap(), key);
        }
    }

    #[test]
    fn a_name_that_would_leave_its_folder_is_refused() {
        let keys = ObjectKeys::new("p");
        for name in ["", ".", "..", "a/b", "../other", "a\\b", "a\nb"] {
            assert!(keys.backup_folder(name).is_err(), "{name:?}");
            assert!(keys.restore_file(name, RestoreFile::Log).is_err(), "{name:?}");
        }
        assert_eq!(keys.backup_folder("nightly.2026").unwrap(), "p/backups/nightly.2026/");
    }
}
