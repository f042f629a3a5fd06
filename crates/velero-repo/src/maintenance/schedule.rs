//! `kopia.maintenance`: when maintenance is due, and what it did. Kept in the form of kopia: its rules look at the history.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::crypto;
use crate::format::Format;
use crate::store::BlobStore;
use crate::{Error, Result, go_json};

/// The blob with the schedule.
pub const SCHEDULE_BLOB: &str = "kopia.maintenance";
const ADDITIONAL: &[u8] = b"maintenance";
/// How many runs of a task are remembered.
const MOST_RUNS: usize = 50;

/// When which maintenance is next due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTimes {
    /// The next full one.
    pub full: Timestamp,
    /// The next quick one.
    pub quick: Timestamp,
}

/// When maintenance is due, and what it did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Schedule {
    /// When the next full maintenance is due.
    #[serde(rename = "nextFullMaintenance", default = "never")]
    pub next_full: Timestamp,
    /// When the next quick maintenance is due.
    #[serde(rename = "nextQuickMaintenance", default = "never")]
    pub next_quick: Timestamp,
    /// The runs of every task by its name, the newest first. Tasks that are not known here stay as they are.
    #[serde(default, deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    pub runs: BTreeMap<String, Vec<Run>>,
}

/// One run of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// When it began.
    #[serde(default = "never")]
    pub start: Timestamp,
    /// When it ended.
    #[serde(default = "never")]
    pub end: Timestamp,
    /// Whether it did what it should.
    #[serde(default, skip_serializing_if = "is_false")]
    pub success: bool,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What it counted, as it was written.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<Box<RawValue>>,
}

/// The time that stands for no time in Go.
pub(super) fn never() -> Timestamp {
    Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::MIN)
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn empty_is_null<S: serde::Serializer>(runs: &BTreeMap<String, Vec<Run>>, serializer: S) -> Result<S::Ok, S::Error> {
    Some(runs).filter(|runs| !runs.is_empty()).serialize(serializer)
}

impl Default for Schedule {
    fn default() -> Self {
        Self { next_full: never(), next_quick: never(), runs: BTreeMap::new() }
    }
}

impl Schedule {
    /// When which maintenance is next due.
    pub fn next(&self) -> NextTimes {
        NextTimes { full: self.next_full, quick: self.next_quick }
    }

    /// Adds a run; the oldest beyond fifty are forgotten.
    pub fn add(&mut self, task: &str, run: Run) {
        let runs = self.runs.entry(task.to_owned()).or_default();
        runs.insert(0, run);
        runs.truncate(MOST_RUNS);
    }

    /// The successful runs of a task.
    pub fn successes(&self, task: &str) -> impl Iterator<Item = &Run> {
        self.runs.get(task).into_iter().flatten().filter(|run| run.success)
    }

    /// When a task last ended well.
    pub fn last_end(&self, task: &str) -> Option<Timestamp> {
        self.successes(task).map(|run| run.end).max()
    }

    /// Decrypts the content of the blob.
    pub fn open(content: &[u8], format: &Format) -> Result<Self> {
        let mut buffer = content.to_vec();
        let plain = crypto::open_in_place(&format.maintenance_key, ADDITIONAL, &mut buffer);
        let plain = plain.map_err(|error| Error::damaged_blob(SCHEDULE_BLOB, error))?;
        serde_json::from_slice(plain).map_err(|error| Error::malformed(format!("blob {SCHEDULE_BLOB:?}"), error))
    }

    /// Encrypts it.
    pub fn seal(&self, format: &Format) -> Result<Vec<u8>> {
        let json = go_json::to_vec(self);
        let json = json.map_err(|error| Error::malformed(format!("blob {SCHEDULE_BLOB:?}"), error))?;
        let mut sealed = Vec::new();
        crypto::seal_into(&format.maintenance_key, ADDITIONAL, &json, &mut sealed);
        Ok(sealed)
    }

    /// Reads the blob; a repository that was never maintained has none.
    pub fn load(store: &dyn BlobStore, format: &Format) -> Result<Self> {
        match store.get(SCHEDULE_BLOB) {
            Ok(content) => Self::open(&content, format),
            Err(error) if error.is_blob_not_found() => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the blob.
    pub fn store(&self, store: &dyn BlobStore, format: &Format) -> Result<()> {
        store.put(SCHEDULE_BLOB, self.seal(format)?.into())
    }
}

/// What a task counted, in the form of kopia.
pub(super) fn extra(kind: &str, data: &impl Serialize) -> Vec<Box<RawValue>> {
    #[derive(Serialize)]
    struct Extra<'a, T> {
        kind: &'a str,
        data: &'a T,
    }
    serde_json::value::to_raw_value(&Extra { kind, data }).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_wrote_is_written_again_unchanged() {
        for text in [
            r#"{"nextFullMaintenance":"2026-11-17T00:05:05.485592947Z","nextQuickMaintenance":"2026-11-16T01:05:05.485593077Z","runs":{"advance-epoch":[{"start":"2026-11-16T00:05:05.521909519Z","end":"2026-11-16T00:05:05.521920295Z","success":true,"extra":[{"kind":"advanceEpochStats","data":{"wasAdvanced":false,"currentEpoch":2}}]}],"of-tomorrow":[{"start":"2026-11-16T00:05:05Z","end":"2026-11-16T00:05:06Z","error":"a\u003cb","extra":[{"kind":"x","data":null,"more":1e3}]}]}}"#,
            r#"{"nextFullMaintenance":"0001-01-01T00:00:00Z","nextQuickMaintenance":"0001-01-01T00:00:00Z","runs":null}"#,
        ] {
            let schedule: Schedule = serde_json::from_str(text).unwrap();
            assert_eq!(String::from_utf8(go_json::to_vec(&schedule).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn fifty_runs_are_remembered_the_newest_first() {
        let mut schedule = Schedule::default();
        for second in 0..60 {
            let time = Timestamp::from_second(second).unwrap();
            let run = Run { start: time, end: time, success: second != 59, error: String::new(), extra: Vec::new() };
            schedule.add("task", run);
        }
        assert_eq!(schedule.runs["task"].len(), 50);
        assert_eq!(schedule.runs["task"][0].start.as_second(), 59);
        assert_eq!(schedule.last_end("task").unwrap().as_second(), 58, "the last that ended well");
        assert_eq!(schedule.last_end("other"), None);
    }
}
