//! Reads the sources that the reference is made from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The Rust files below a folder in the order of their paths, without their tests.
pub(super) fn below(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path)?;
            let text = without_tests(&text).to_owned();
            files.push((path, text));
        }
    }
    Ok(files)
}

fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]").map_or(text, |(code, _)| code)
}
