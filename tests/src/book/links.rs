//! Dead links: within the book they must hold in the sources and in what is built of them; elsewhere in the sources.

use std::path::{Component, Path, PathBuf};

use velero_testkit::install::repository_root;

use super::Book;
use super::page::{Link, Page};

/// What a look at all links found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Links that lead nowhere, with the place and the reason.
    pub dead: Vec<String>,
    /// Links to other hosts, which a test cannot follow.
    pub outside: Vec<String>,
    /// How many links were looked at.
    pub looked_at: usize,
}

/// Looks at all links of the book and of the pages beside it.
pub fn check(book: &Book) -> Findings {
    let mut findings = Findings::default();
    for page in book.pages.values() {
        for link in &page.links {
            findings.looked_at += 1;
            if link.target.contains("://") || link.target.starts_with("mailto:") {
                findings.outside.push(format!("{}:{}: {}", page.path.display(), link.line, link.target));
            } else if let Err(reason) = follow(book, page, link) {
                findings.dead.push(format!("{}:{}: {}: {reason}", page.path.display(), link.line, link.target));
            }
        }
    }
    findings
}

fn follow(book: &Book, page: &Page, link: &Link) -> Result<(), String> {
    let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let folder = page.path.parent().unwrap_or(Path::new(""));
    let target = if path.is_empty() { page.path.clone() } else { tidy(&folder.join(path)) };
    let is_chapter = |path: &PathBuf| book.chapters.contains(path);
    if is_chapter(&page.path) && !is_chapter(&target) && !is_part_of_build(&target) {
        return Err("it is no page of the book, so the built book does not have it".to_owned());
    }
    if !repository_root().join(&target).exists() {
        return Err(format!("there is no {}", target.display()));
    }
    match book.pages.get(&target) {
        Some(page) if !anchor.is_empty() && !page.anchors.contains(anchor) => {
            let known = page.anchors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            Err(format!("{} has no heading of that name, but {known}", target.display()))
        }
        _ => Ok(()),
    }
}

/// Whether mdBook copies a file into what it builds: those beside the pages that are no pages themselves.
fn is_part_of_build(path: &Path) -> bool {
    path.starts_with("docs") && path.extension().is_some_and(|extension| extension != "md")
}

/// A path without `..` and `.`.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(tidy.pop()),
            Component::CurDir => {}
            part => tidy.push(part),
        }
    }
    tidy
}
