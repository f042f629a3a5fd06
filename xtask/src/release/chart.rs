//! The package for Helm.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Archive, Release, VERSION, commit, read};

const CHART: &str = "deploy/chart/velero";

/// Writes the package, with the definitions themselves where the folder has a link to them.
pub(super) fn write(release: &Release) -> Result<()> {
    let folder = release.root.join(CHART);
    let about = fs::read_to_string(folder.join("Chart.yaml"))?;
    for line in [format!("version: {VERSION}"), format!("appVersion: v{VERSION}")] {
        ensure!(
            about.lines().any(|found| found == line),
            "{CHART}/Chart.yaml does not say {line:?}: it must say what Cargo.toml says"
        );
    }
    let ignored = Ignored::read(&fs::read_to_string(folder.join(".helmignore")).unwrap_or_default());
    let mut archive = release.archive("velero");
    add(&mut archive, &folder, "", &ignored, &commit::files(&release.root)?)?;
    archive.write(&release.path(&format!("velero-{VERSION}.tgz")))
}

fn add(archive: &mut Archive, folder: &Path, before: &str, ignored: &Ignored, known: &BTreeSet<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .ok()
            .with_context(|| format!("{} has a strange name", entry.path().display()))?;
        // Through links.
        let is_folder = fs::metadata(entry.path())?.is_dir();
        if ignored.contains(&name, is_folder) {
            continue;
        }
        let path = format!("{before}{name}");
        match is_folder {
            true => add(archive, &entry.path(), &format!("{path}/"), ignored, known)?,
            // What lies there beside would be in this package alone.
            false if !known.contains(&entry.path().canonicalize()?) => {}
            false => archive.file(&path, read(&entry.path())?),
        }
    }
    Ok(())
}

/// What `.helmignore` keeps out, by name, as ours is written: `name/` is a folder, `*.end` an ending.
struct Ignored(Vec<String>);

impl Ignored {
    fn read(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.chain([".helmignore"]).map(str::to_owned).collect())
    }

    fn contains(&self, name: &str, is_folder: bool) -> bool {
        self.0.iter().any(|pattern| match (pattern.strip_suffix('/'), pattern.strip_prefix('*')) {
            (Some(folder), _) => is_folder && folder.trim_start_matches('/') == name,
            (None, Some(ending)) => name.ends_with(ending),
            (None, None) => pattern.trim_start_matches('/') == name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helm_ignores_stays_out() {
        let ignored = Ignored::read("# comment\n.git/\n*.swp\n/ci/\n\nOWNERS\n");
        for (name, is_folder, expected) in [
            (".git", true, true),
            (".git", false, false),
            ("values.yaml.swp", false, true),
            ("ci", true, true),
            ("OWNERS", false, true),
            (".helmignore", false, true),
            ("values.yaml", false, false),
            ("templates", true, false),
        ] {
            assert_eq!(ignored.contains(name, is_folder), expected, "{name}");
        }
    }
}
