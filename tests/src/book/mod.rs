//! The book, whose source is the folder `docs`: its pages, their links, and the commands in them.

mod blocks;
mod build;
mod links;
mod page;
mod reader;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use velero_testkit::install::repository_root;

pub use self::blocks::{Command, Tally};
pub use self::build::build;
pub use self::links::{Findings, check};
pub use self::page::Page;
pub use self::reader::Reader;

/// The file that says which pages the book has, and in which order.
const SUMMARY: &str = "SUMMARY.md";
/// Pages beside the book whose links are checked too.
const BESIDE: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/chart/velero/README.md"];

/// All pages, by their paths in the repository.
pub struct Book {
    /// Those of the book, in its order.
    pub chapters: Vec<PathBuf>,
    /// Every page that was read, those beside the book too.
    pub pages: BTreeMap<PathBuf, Page>,
    /// Pages in the folder of the book that nobody finds, since the summary does not name them.
    pub unlisted: Vec<PathBuf>,
}

impl Book {
    /// Reads the book.
    pub fn read() -> Result<Self> {
        let folder = Path::new("docs");
        let summary = read(&folder.join(SUMMARY))?;
        let chapters: Vec<PathBuf> = summary.links.iter().map(|link| folder.join(&link.target)).collect();
        let mut pages = BTreeMap::new();
        for path in chapters.iter().cloned().chain(BESIDE.map(PathBuf::from)) {
            let page = read(&path).context("the summary or the list of pages beside the book names it")?;
            pages.insert(path, page);
        }
        let mut unlisted = markdown_below(folder)?;
        unlisted
            .retain(|path| !pages.contains_key(path) && !path.ends_with(SUMMARY) && !path.starts_with("docs/design"));
        Ok(Self { chapters, pages, unlisted })
    }

    /// The page of that path.
    pub fn page(&self, path: &str) -> Result<&Page> {
        self.pages.get(Path::new(path)).with_context(|| format!("the book has no page {path}"))
    }

    /// The pages of the book, in its order.
    pub fn in_order(&self) -> impl Iterator<Item = &Page> {
        self.chapters.iter().filter_map(|path| self.pages.get(path))
    }
}

fn read(path: &Path) -> Result<Page> {
    let text =
        fs::read_to_string(repository_root().join(path)).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Page::parse(path, &text))
}

fn markdown_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(repository_root().join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            found.extend(markdown_below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
