//! Built things are kept outside the work tree, in a folder named after what they are made of.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::tool::{Tool, ensure_outside_of_boxes};

/// The folder that holds everything this project built or downloaded for its tests.
pub fn root() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("VELERO_TEST_CACHE") {
        return Ok(chosen.into());
    }
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set: set it, or VELERO_TEST_CACHE")?)
            .join(".cache"),
    };
    Ok(base.join("velero-rust"))
}

/// What a cached thing is made of; two equal recipes share one entry.
#[derive(Default)]
pub struct Recipe(Sha256);

impl Recipe {
    /// Adds a piece of text, such as a version or a flag.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds the names and contents of all files in a folder and below.
    pub fn folder(mut self, folder: &Path) -> Result<Self> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .with_context(|| format!("cannot read {}", folder.display()))?
            .collect::<Result<_, _>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            self = self.text(&file.file_name().to_string_lossy());
            self = if file.path().is_dir() {
                self.folder(&file.path())?
            } else {
                self.text(&fs::read_to_string(file.path())?)
            };
        }
        Ok(self)
    }

    fn digest(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Gives the folder of an entry, building it first where it is missing. Two processes asking for the same entry build
/// it once; a build that fails leaves nothing behind. What is not on the list is not handed out, even if it is there.
pub(crate) fn entry(tool: Tool, recipe: Recipe, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let name = tool.name();
    ensure!(Tool::ALL.contains(&tool), "{name} is not got before the first test: put it on the list, Tool::ALL");
    let root = root()?;
    fs::create_dir_all(&root).with_context(|| format!("cannot create the cache folder {}", root.display()))?;
    let finished = root.join(format!("{name}-{}", recipe.digest()));
    if finished.is_dir() {
        return Ok(finished);
    }
    ensure_outside_of_boxes(name)?;
    let lock = File::create(root.join(format!("{name}.lock")))?;
    lock.lock().with_context(|| format!("cannot lock the cache entry {name}"))?;
    if finished.is_dir() {
        return Ok(finished);
    }
    let unfinished = root.join(format!("{name}.unfinished"));
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished)?;
    if let Err(error) = build(&unfinished) {
        let _ = fs::remove_dir_all(&unfinished);
        return Err(error);
    }
    fs::rename(&unfinished, &finished)?;
    Ok(finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_recipes_have_equal_digests_and_others_do_not() {
        let digest = |texts: &[&str]| texts.iter().fold(Recipe::default(), |recipe, text| recipe.text(text)).digest();
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab", ""]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
    }
}
