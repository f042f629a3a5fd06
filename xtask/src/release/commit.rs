//! The commit that is released.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// A commit, and what lies on top of it.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    /// Its name, with `-dirty` where there are changes on top.
    pub(super) name: String,
    /// When it was made, in seconds since 1970: the date of everything in the release.
    pub(super) time: u64,
}

impl Commit {
    /// The commit that is checked out. It must be the whole truth, and its tag, if it has one of a version, that version.
    pub(super) fn of(root: &Path, version: &str, allow_dirty: bool) -> Result<Self> {
        const NEEDED: &str = "a release is made from a checkout with git";
        let top = git(root, &["rev-parse", "--show-toplevel"]).context(NEEDED)?;
        // The commit of another repository, in which this one was unpacked, would be named.
        ensure!(
            Path::new(&top).canonicalize()? == root.canonicalize()?,
            "{NEEDED}, and {} is a folder in another one, {top}",
            root.display()
        );
        let name = git(root, &["rev-parse", "HEAD"]).context(NEEDED)?;
        let time = git(root, &["-c", "log.showSignature=false", "log", "-1", "--format=%ct"])?;
        let time = time.parse().with_context(|| format!("git says {time:?} of when the commit was made"))?;
        check_tag(&git(root, &["tag", "--points-at", "HEAD"])?, version)?;
        let changes = git(root, &["status", "--porcelain", "--untracked-files=normal"])?;
        if changes.is_empty() {
            return Ok(Self { name, time });
        }
        ensure!(
            allow_dirty,
            "nobody could make this release again, for these changes are in no commit:\n{changes}\ncommit them, or add --allow-dirty"
        );
        Ok(Self { name: format!("{name}-dirty"), time })
    }
}

/// The files that belong to a checkout, and no others that lie in it: what git is told to ignore is on one machine alone. Of a clean
/// checkout they are those of its commit.
pub(super) fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let names = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let root = root.canonicalize()?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name)).collect())
}

/// Refuses a version that is tagged as another.
fn check_tag(tags: &str, version: &str) -> Result<()> {
    let mut versions = tags
        .lines()
        .filter_map(|tag| tag.strip_prefix('v'))
        .filter(|tag| tag.starts_with(|first: char| first.is_ascii_digit()))
        .peekable();
    match versions.peek().copied() {
        Some(tagged) if !versions.any(|tagged| tagged == version) => {
            bail!("the commit is tagged v{tagged}, and Cargo.toml says version {version}: make them equal")
        }
        _ => Ok(()),
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().context("cannot start git")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), complaint.trim());
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_git_is_told_to_ignore_is_no_file_of_the_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        git(&root, &["init", "--quiet"]).unwrap();
        for (name, content) in [(".gitignore", "*.orig\n"), ("a b.yaml", ""), ("new.yaml", ""), ("a.yaml.orig", "")] {
            fs::write(root.join(name), content).unwrap();
        }
        git(&root, &["add", ".gitignore", "a b.yaml"]).unwrap();
        let expected = [".gitignore", "a b.yaml", "new.yaml"].map(|name| root.join(name));
        assert_eq!(files(&root).unwrap(), BTreeSet::from(expected));
    }

    #[test]
    fn a_source_unpacked_in_somebody_elses_checkout_is_not_released_under_their_commit() {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "--quiet"]).unwrap();
        let unpacked = folder.path().join("velero-0.1.0");
        fs::create_dir(&unpacked).unwrap();
        let refused = Commit::of(&unpacked, "0.1.0", true).unwrap_err().to_string();
        assert!(refused.contains("made from a checkout") && refused.contains("in another one"), "{refused}");
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        for (tags, is_fine) in [
            ("", true),
            ("v0.1.0", true),
            ("latest\nv0.1.0", true),
            ("v0.2.0\nv0.1.0", true),
            ("verified", true),
            ("v0.2.0", false),
            ("v0.1.0-rc.1", false),
        ] {
            assert_eq!(check_tag(tags, "0.1.0").is_ok(), is_fine, "{tags}");
        }
    }
}
