//! Directories: what a snapshot knows of files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{ContentSource, ObjectId, ObjectReader};
use crate::{Result, go_json, json_stream};

const STREAM: &str = "kopia:directory";

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A file.
    #[serde(rename = "f")]
    File,
    /// A directory.
    #[serde(rename = "d")]
    Directory,
    /// A symbolic link.
    #[serde(rename = "s")]
    Symlink,
}

/// An entry of a directory, or the root of a snapshot, in the order kopia writes its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name in its directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Permissions, setuid, setgid and sticky bits.
    #[serde(default, skip_serializing_if = "Mode::is_zero")]
    pub mode: Mode,
    /// The bytes of a file or of the target of a link.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// When it was last modified.
    #[serde(default, skip_serializing_if = "is_start_of_time")]
    pub mtime: Timestamp,
    /// The owner.
    #[serde(default, skip_serializing_if = "is_root")]
    pub uid: u32,
    /// The group.
    #[serde(default, skip_serializing_if = "is_root")]
    pub gid: u32,
    /// The content of a file, the target of a link, the entries of a directory.
    #[serde(rename = "obj")]
    pub object: ObjectId,
    /// What is below a directory.
    #[serde(rename = "summ", default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_root(number: &u32) -> bool {
    *number == 0
}

fn is_start_of_time(time: &Timestamp) -> bool {
    *time == Timestamp::UNIX_EPOCH
}

/// What is below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// The bytes of all files.
    pub size: u64,
    /// How many files.
    pub files: u64,
    /// How many symbolic links.
    pub symlinks: u64,
    /// How many directories, with the one itself.
    pub dirs: u64,
    /// The latest modification of anything below.
    pub max_time: Timestamp,
    /// Why it is not complete.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub incomplete: String,
    /// How many entries failed.
    pub num_failed: u64,
    /// How many errors were ignored.
    #[serde(skip_serializing_if = "is_zero")]
    pub num_ignored_errors: u64,
    /// The first errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<serde_json::Value>,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            size: 0,
            files: 0,
            symlinks: 0,
            dirs: 0,
            max_time: Timestamp::UNIX_EPOCH,
            incomplete: String::new(),
            num_failed: 0,
            num_ignored_errors: 0,
            errors: Vec::new(),
        }
    }
}

/// Mode bits as Unix knows them: 12 bits. Kopia writes those of Go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode(pub u32);

const BITS: [(u32, u32); 3] = [(0o4000, 1 << 23), (0o2000, 1 << 22), (0o1000, 1 << 20)];

impl Mode {
    fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The text kopia writes.
    pub fn to_text(self) -> String {
        let high = BITS.iter().filter(|(unix, _)| self.0 & unix != 0).map(|(_, go)| go);
        format!("0{:o}", high.fold(self.0 & 0o777, |mode, bit| mode | bit))
    }

    /// From the text kopia writes.
    pub fn from_text(text: &str) -> Option<Self> {
        let go = u32::from_str_radix(text, 8).ok()?;
        let high = BITS.iter().filter(|(_, bit)| go & bit != 0).map(|(unix, _)| unix);
        Some(Self(high.fold(go & 0o777, |mode, bit| mode | bit)))
    }
}

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_text(&text).ok_or_else(|| serde::de::Error::custom(format!("mode {text:?} is not octal")))
    }
}

/// Shows the entries of a directory in order, one at a time.
pub fn for_each_entry(
    source: &dyn ContentSource,
    directory: ObjectId,
    visit: impl FnMut(DirectoryEntry) -> Result<()>,
) -> Result<()> {
    json_stream::read(ObjectReader::open(source, directory)?, &format!("directory {directory}"), STREAM, visit)
}

/// The bytes of a directory. Entries must be in order: directories first, each by the bytes of their names.
pub fn write(entries: &[DirectoryEntry], summary: &Summary) -> Vec<u8> {
    #[derive(Serialize)]
    struct Stream<'a> {
        stream: &'a str,
        entries: Option<&'a [DirectoryEntry]>,
        summary: &'a Summary,
    }
    let entries = Some(entries).filter(|entries| !entries.is_empty());
    let mut bytes = go_json::to_vec(&Stream { stream: STREAM, entries, summary }).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "{\"stream\":\"kopia:directory\",\"entries\":null,\"summary\":{\"size\":0,\"files\":0,\"symlinks\":0,\"dirs\":1,\"maxTime\":\"2001-09-09T01:46:40Z\",\"numFailed\":0}}\n";

    #[test]
    fn an_empty_directory_is_written_as_kopia_writes_it() {
        let summary = Summary { dirs: 1, max_time: "2001-09-09T01:46:40Z".parse().unwrap(), ..Summary::default() };
        let bytes = write(&[], &summary);
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), EMPTY);
        assert_eq!(crate::hex::encode(&crate::testing::sealer().hash(&bytes)), "4e1848d26fbd1b528c2ce5abe0c0153c");
    }

    #[test]
    fn modes_are_those_of_go() {
        for (text, mode) in [("0755", 0o755), ("040000755", 0o4755), ("04000777", 0o1777), ("060000755", 0o6755)] {
            assert_eq!((Mode::from_text(text), Mode(mode).to_text().as_str()), (Some(Mode(mode)), text));
        }
        assert_eq!(Mode::from_text("9"), None);
    }

    #[test]
    fn an_entry_is_read_and_written_again_unchanged() {
        for text in [
            r#"{"name":"a\u0026b","type":"f","mode":"0640","size":3,"mtime":"2026-01-02T03:04:05.6789Z","uid":7,"gid":8,"obj":"f5386b932a82749f91057cabb1f8ec1f"}"#,
            r#"{"name":"dir","type":"d","mode":"0777","mtime":"1754-08-30T22:43:41.128654848Z","obj":"k4e1848d26fbd1b528c2ce5abe0c0153c","summ":{"size":1,"files":2,"symlinks":3,"dirs":4,"maxTime":"0001-01-01T00:00:00Z","incomplete":"checkpoint","numFailed":0}}"#,
            r#"{"type":"s","obj":"f5386b932a82749f91057cabb1f8ec1f"}"#,
        ] {
            let entry: DirectoryEntry = serde_json::from_str(text).unwrap();
            assert_eq!(String::from_utf8(go_json::to_vec(&entry).unwrap()).unwrap(), text);
        }
    }
}
