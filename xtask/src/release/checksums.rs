//! The checksums of a release, as `sha256sum --check` reads them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

/// The file with the checksums.
pub(super) const FILE: &str = "SHA256SUMS";

/// Refuses a folder that holds something else: its checksums would vouch for it.
pub(super) fn check_folder(folder: &Path, version: &str) -> Result<()> {
    let strange: Vec<String> = names(folder)?.into_iter().filter(|name| !is_of(name, version)).collect();
    ensure!(
        strange.is_empty(),
        "{} holds what is not of version {version}: {}; empty it, or name another folder with --output",
        folder.display(),
        strange.join(", ")
    );
    Ok(())
}

/// Notes in a folder which commit its files are of, before there are any. Refuses one with files of another commit: one list of
/// checksums would vouch for both.
pub(super) fn note_commit(folder: &Path, version: &str, commit: &str) -> Result<()> {
    let note = folder.join(format!("velero-v{version}-commit.txt"));
    let line = format!("{commit}\n");
    let noted = fs::read_to_string(&note).ok();
    let is_new = noted.is_none() && names(folder)?.is_empty();
    ensure!(
        is_new || noted.as_ref() == Some(&line),
        "{} holds files of {}, and {commit} is to be released; empty it, or name another folder with --output",
        folder.display(),
        noted.map_or_else(|| "a commit that is not noted".to_owned(), |noted| format!("commit {}", noted.trim()))
    );
    fs::write(&note, line).with_context(|| format!("cannot write {}", note.display()))
}

/// Whether a file can belong to that version and to no other.
fn is_of(name: &str, version: &str) -> bool {
    let Some((_, rest)) = name.split_once(version) else { return name == FILE };
    name.starts_with("velero") && !rest.starts_with(|next: char| next.is_ascii_digit())
}

/// Writes the checksums of all files of the folder; gives how many there are.
pub(super) fn write(folder: &Path) -> Result<usize> {
    let mut lines = String::new();
    let files: Vec<String> = names(folder)?.into_iter().filter(|name| name != FILE).collect();
    for name in &files {
        lines += &format!("{}  {name}\n", of_file(&folder.join(name))?);
    }
    fs::write(folder.join(FILE), lines).with_context(|| format!("cannot write {FILE}"))?;
    Ok(files.len())
}

/// The checksum of a file.
pub(super) fn of_file(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    io::copy(&mut file, &mut HashWriter(&mut hash))?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is in a folder, sorted.
pub(super) fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_version_are_vouched_for() {
        for (name, expected) in [
            ("velero-v0.1.0-linux-amd64.tar.gz", true),
            ("velero-0.1.0.tgz", true),
            ("SHA256SUMS", true),
            ("velero-v0.1.01-linux-amd64.tar.gz", false),
            ("velero-v0.2.0-linux-amd64.tar.gz", false),
            ("notes-0.1.0.txt", false),
            ("keys", false),
        ] {
            assert_eq!(is_of(name, "0.1.0"), expected, "{name}");
        }
    }

    #[test]
    fn files_of_two_commits_never_lie_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        note_commit(folder.path(), "0.1.0", "one").unwrap();
        fs::write(folder.path().join("velero-0.1.0.tgz"), "").unwrap();
        note_commit(folder.path(), "0.1.0", "one").unwrap();
        check_folder(folder.path(), "0.1.0").unwrap();
        let refused = note_commit(folder.path(), "0.1.0", "two").unwrap_err().to_string();
        assert!(refused.contains("commit one") && refused.contains("two is to be released"), "{refused}");
        fs::remove_file(folder.path().join("velero-v0.1.0-commit.txt")).unwrap();
        let refused = note_commit(folder.path(), "0.1.0", "one").unwrap_err().to_string();
        assert!(refused.contains("not noted"), "{refused}");
    }

    #[test]
    fn checksums_are_those_of_the_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("velero-0.1.0.tgz"), "abc").unwrap();
        fs::write(folder.path().join("velero-0.1.0-a"), "").unwrap();
        assert_eq!(write(folder.path()).unwrap(), 2);
        assert_eq!(write(folder.path()).unwrap(), 2, "its own file is not among them");
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  velero-0.1.0-a\n\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  velero-0.1.0.tgz\n";
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), expected);
        assert!(check_folder(folder.path(), "0.1.0").is_ok());
        fs::write(folder.path().join("stray"), "").unwrap();
        assert!(check_folder(folder.path(), "0.1.0").unwrap_err().to_string().contains("stray"));
    }
}
