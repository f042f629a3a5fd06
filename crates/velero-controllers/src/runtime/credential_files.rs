//! Credentials for plugins, which take them from files only.
//!
//! The files lie in a folder that only this user can enter, and go with the server.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::PathBuf;

/// A folder of credentials.
pub(crate) struct CredentialFiles {
    folder: PathBuf,
}

impl CredentialFiles {
    pub(crate) fn new() -> Self {
        let name = format!("velero-credentials-{}", uuid::Uuid::new_v4().simple());
        Self { folder: std::env::temp_dir().join(name) }
    }

    /// The file of some credentials. Others of the same owner get another file, so that who has read the old one is
    /// not left with it unknowingly.
    pub(crate) fn write(&self, owner: &str, content: &[u8]) -> io::Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        (owner, content).hash(&mut hasher);
        let path = self.folder.join(format!("{owner}-{:016x}", hasher.finish()));
        if path.exists() {
            return Ok(path);
        }
        let (mut folder, mut options) = (DirBuilder::new(), OpenOptions::new());
        folder.recursive(true);
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        folder.create(&self.folder)?;
        let unfinished = path.with_extension("new");
        let mut file = options.open(&unfinished)?;
        file.write_all(content)?;
        fs::rename(&unfinished, &path)?;
        Ok(path)
    }
}

impl Drop for CredentialFiles {
    fn drop(&mut self) {
        // A folder that was never needed does not exist.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_are_readable_by_this_user_only_and_go_with_their_owner() {
        let files = CredentialFiles::new();
        let path = files.write("default", b"secret").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&files.folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(files.write("default", b"secret").unwrap(), path);
        assert_ne!(files.write("default", b"other").unwrap(), path);
        drop(files);
        assert!(!path.exists());
    }
}
