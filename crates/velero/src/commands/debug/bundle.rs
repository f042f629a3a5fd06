//! The file that is collected into.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::printer::Printer;
use crate::private_files;

/// The folder in the archive, as the original names it.
const FOLDER: &str = "velero-bundle";

/// A compressed archive, readable by its owner only.
pub(super) struct Bundle {
    archive: tar::Builder<GzEncoder<File>>,
    path: PathBuf,
    problems: Vec<String>,
    printer: Printer,
    verbose: bool,
}

impl Bundle {
    /// Begins a bundle.
    pub(super) fn create(path: &Path, printer: Printer, verbose: bool) -> Result<Self> {
        let file = private_files::to_write().create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("cannot write {}: --output names another place", path.display()))?;
        let archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Self { archive, path: path.to_owned(), problems: Vec::new(), printer, verbose })
    }

    /// Adds a file.
    pub(super) fn add(&mut self, name: &str, contents: &[u8]) -> Result<()> {
        if self.verbose {
            self.printer.note(format_args!("{name}: {} bytes", contents.len()));
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(jiff::Timestamp::now().as_second().max(0).unsigned_abs());
        let written = self.archive.append_data(&mut header, format!("{FOLDER}/{name}"), contents);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Adds a file, or notes why there is none: what is missing keeps nobody from the rest.
    pub(super) fn add_or_note(&mut self, name: &str, what: &str, contents: Result<Vec<u8>>) -> Result<()> {
        match contents {
            Ok(contents) => self.add(name, &contents),
            Err(problem) => {
                self.problems.push(format!("{what}: {problem:#}"));
                Ok(())
            }
        }
    }

    /// Ends the bundle; gives how many things are missing in it.
    pub(super) fn finish(mut self) -> Result<usize> {
        let problems = std::mem::take(&mut self.problems);
        if !problems.is_empty() {
            self.add("problems.txt", format!("{}\n", problems.join("\n")).as_bytes())?;
        }
        let ended = self.archive.into_inner().and_then(GzEncoder::finish).and_then(|mut file| file.flush());
        ended.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(problems.len())
    }
}
