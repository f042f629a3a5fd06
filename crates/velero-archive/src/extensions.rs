//! Headers before an entry that say more of it than its own header can: a long path in the words of GNU tar or of PAX.
//!
//! They are entries themselves, of any size they like, so they are only read once their size is known to be small.

use std::io::Read;

use crate::{Error, Result};

/// The largest header that is read. Paths are far shorter; PAX headers may hold more than the path.
const LARGEST_HEADER: u64 = 64 << 10;

/// What was said of the entry that comes next.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    pending: bool,
}

impl Extensions {
    /// Reads an entry if it is such a header; false when it is an entry of its own.
    pub(crate) fn take<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<bool> {
        let kind = entry.header().entry_type();
        let is_link = kind.is_gnu_longlink();
        let is_global = kind.is_pax_global_extensions();
        if !is_link && !is_global && !kind.is_gnu_longname() && !kind.is_pax_local_extensions() {
            return Ok(false);
        }
        let size = entry.size();
        if size > LARGEST_HEADER {
            return Err(Error::HeaderTooLarge { size, limit: LARGEST_HEADER });
        }
        // Only links have a target, and links are refused; what holds for all entries says nothing about their paths.
        if is_link || is_global {
            return Ok(true);
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(crate::reader::damaged)?;
        self.pending = true;
        if kind.is_gnu_longname() {
            let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
            content.truncate(end);
            self.set_path(content)?;
        } else {
            self.take_pax(&content)?;
        }
        Ok(true)
    }

    fn take_pax(&mut self, content: &[u8]) -> Result<()> {
        for record in tar::PaxExtensions::new(content) {
            let record =
                record.map_err(|_| Error::BadHeader { reason: "a PAX header has a record that is malformed" })?;
            match record.key_bytes() {
                b"path" => self.set_path(record.value_bytes().to_vec())?,
                b"size" => {
                    let size = record.value().ok().and_then(|size| size.parse().ok());
                    self.size =
                        Some(size.ok_or(Error::BadHeader { reason: "a PAX header has a size that is no number" })?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Readers that disagree about which of two paths counts would see two different archives.
    fn set_path(&mut self, path: Vec<u8>) -> Result<()> {
        match self.path.replace(path) {
            None => Ok(()),
            Some(_) => Err(Error::BadHeader { reason: "an entry is given two long paths" }),
        }
    }

    /// The path of an entry, as the headers before it or its own say.
    pub(crate) fn path_of<R: Read>(&mut self, entry: &tar::Entry<'_, R>) -> Result<String> {
        let Self { path, size, .. } = std::mem::take(self);
        if size.is_some_and(|size| size != entry.size()) {
            return Err(Error::BadHeader { reason: "an entry is given two sizes" });
        }
        let path = path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        String::from_utf8(path).map_err(|error| Error::UnsafePath {
            path: String::from_utf8_lossy(error.as_bytes()).chars().take(100).collect(),
            reason: "it is not UTF-8",
        })
    }

    /// An error if something was said of an entry that never came.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.pending {
            true => Err(Error::BadHeader { reason: "it belongs to an entry that is missing" }),
            false => Ok(()),
        }
    }
}
