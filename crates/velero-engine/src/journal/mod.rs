//! The one record of what happened.
//!
//! Everything worth telling goes through a [`Journal`]. The log file, the results file and the counts of warnings and
//! errors are derived from the same entries, so they cannot disagree.

mod line;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use velero_api::records::{Results, ResultsFile};
use velero_cluster::ItemRef;

pub use line::LogFormat;

use crate::lock;

const RESTORE: &str = "restore";

/// How serious an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look for a fault.
    Debug,
    /// What was done.
    Info,
    /// Something is not as it should be; what was asked for was done all the same.
    Warning,
    /// Something that was asked for was not done.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How many entries of each kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Warnings.
    pub warnings: i64,
    /// Errors.
    pub errors: i64,
}

/// The record of one backup, restore or deletion. Clones share it.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    subject: (&'static str, String),
    /// Whether results name type and object in front of the message; those of a restore say it in the message.
    names_objects: bool,
    format: LogFormat,
    lowest: Level,
    state: Mutex<State>,
}

struct State {
    /// The members of the log that are complete.
    ended: Bytes,
    log: GzEncoder<Vec<u8>>,
    line: Vec<u8>,
    clock: line::Clock,
    counts: Counts,
    results: ResultsFile,
}

impl Journal {
    /// Opens a journal. Every line carries the subject, for example `backup=velero/nightly`; entries below `lowest`
    /// are left out of the log.
    pub fn new(subject_key: &'static str, subject: &str, format: LogFormat, lowest: Level) -> Self {
        let state = State {
            ended: Bytes::new(),
            log: GzEncoder::new(Vec::new(), Compression::fast()),
            line: Vec::with_capacity(256),
            clock: line::Clock::default(),
            counts: Counts::default(),
            results: ResultsFile::default(),
        };
        let names_objects = subject_key != RESTORE;
        let subject = (subject_key, subject.to_owned());
        Self { shared: Arc::new(Shared { subject, names_objects, format, lowest, state: Mutex::new(state) }) }
    }

    /// Opens the journal of a backup.
    pub fn for_backup(namespace: &str, name: &str, format: LogFormat, lowest: Level) -> Self {
        Self::new("backup", &format!("{namespace}/{name}"), format, lowest)
    }

    /// Opens the journal of a restore.
    pub fn for_restore(namespace: &str, name: &str, format: LogFormat, lowest: Level) -> Self {
        Self::new(RESTORE, &format!("{namespace}/{name}"), format, lowest)
    }

    /// Begins an entry about details.
    #[track_caller]
    pub fn debug(&self) -> Entry<'_> {
        Entry::new(self, Level::Debug)
    }

    /// Begins an entry about something done.
    #[track_caller]
    pub fn info(&self) -> Entry<'_> {
        Entry::new(self, Level::Info)
    }

    /// Begins a warning.
    #[track_caller]
    pub fn warning(&self) -> Entry<'_> {
        Entry::new(self, Level::Warning)
    }

    /// Begins an error.
    #[track_caller]
    pub fn error(&self) -> Entry<'_> {
        Entry::new(self, Level::Error)
    }

    /// How many warnings and errors there are so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Warnings and errors as the results file holds them.
    pub fn results(&self) -> ResultsFile {
        self.state().results.clone()
    }

    /// The log up to now, gzip compressed. What is written after this call is in the next one as well.
    pub fn compressed_log(&self) -> std::io::Result<Bytes> {
        let mut state = self.state();
        // A gzip file may consist of several members: ending one now keeps the journal open for more.
        let member = GzEncoder::new(Vec::new(), Compression::fast());
        let ended = std::mem::replace(&mut state.log, member).finish()?;
        // The log of a million items is large: it is held once, by the journal and its readers together.
        state.ended = match state.ended.is_empty() {
            true => ended.into(),
            false => [&state.ended[..], &ended].concat().into(),
        };
        Ok(state.ended.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

/// A type that has a name for people, as in `deployments.apps`.
pub trait TypeName {
    /// The name.
    fn type_name(&self) -> &str;
}

impl TypeName for str {
    fn type_name(&self) -> &str {
        self
    }
}

/// An entry being put together; [`Entry::message`] records it.
#[must_use = "an entry is recorded by its message"]
pub struct Entry<'a> {
    journal: &'a Journal,
    level: Level,
    place: &'static Location<'static>,
    error: Option<String>,
    fields: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Entry<'a> {
    #[track_caller]
    fn new(journal: &'a Journal, level: Level) -> Self {
        Self { journal, level, place: Location::caller(), error: None, fields: Vec::with_capacity(6) }
    }

    /// The type the entry is about, for example `deployments.apps`.
    pub fn resource(self, resource: &'a str) -> Self {
        self.field("resource", resource)
    }

    /// The name of the object the entry is about.
    pub fn name(self, name: &'a str) -> Self {
        self.field("name", name)
    }

    /// The namespace the entry is about; none for a cluster-scoped object.
    pub fn namespace(self, namespace: Option<&'a str>) -> Self {
        self.field("namespace", namespace.unwrap_or_default())
    }

    /// The item the entry is about.
    pub fn item<T: TypeName + ?Sized>(self, item: ItemRef<'a, T>) -> Self {
        self.resource(item.resource_type.type_name()).namespace(item.namespace).name(item.name)
    }

    /// What went wrong.
    pub fn error(mut self, error: &dyn Display) -> Self {
        self.error = Some(error.to_string());
        self
    }

    /// Any other field.
    pub fn field(mut self, key: &'static str, value: impl Into<Cow<'a, str>>) -> Self {
        self.fields.push((key, value.into()));
        self
    }

    /// Records the entry.
    pub fn message(mut self, message: &str) {
        let shared = &self.journal.shared;
        let mut state = self.journal.state();
        let state = &mut *state;
        match self.level {
            Level::Warning => {
                state.counts.warnings += 1;
                self.add_to(&mut state.results.warnings, message);
            }
            Level::Error => {
                state.counts.errors += 1;
                self.add_to(&mut state.results.errors, message);
            }
            Level::Debug | Level::Info => {}
        }
        if self.level < shared.lowest {
            return;
        }
        self.tell(message);
        let source = format!("{}:{}", self.place.file(), self.place.line());
        self.fields.push((shared.subject.0, Cow::Borrowed(&shared.subject.1)));
        self.fields.push(("logSource", Cow::Owned(source)));
        if let Some(error) = self.error.take() {
            let key = if shared.format == LogFormat::Json { "error.message" } else { "error" };
            self.fields.push((key, Cow::Owned(error)));
        }
        self.fields.sort_by_key(|(key, _)| *key);
        let time = state.clock.text(Timestamp::now());
        state.line.clear();
        line::write(&mut state.line, shared.format, time, self.level.as_str(), message, &self.fields);
        // Writing to memory cannot fail.
        let _ = state.log.write_all(&state.line);
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == key).map(|(_, value)| value.as_ref())
    }

    fn add_to(&self, results: &mut Results, message: &str) {
        let mut text = String::new();
        if !self.journal.shared.names_objects {
            text.push_str(message);
            if let Some(error) = &self.error {
                text.push_str(&format!(": {error}"));
            }
            return match self.find("namespace") {
                Some(namespace) => results.add(namespace, text),
                None => results.add_velero(text),
            };
        }
        let mut part = |label: &str, value: Option<&str>| {
            if let Some(value) = value {
                text.push_str(&format!(" {label}: /{value}"));
            }
        };
        part("resource", self.find("resource"));
        part("name", self.find("name"));
        part("message", Some(message));
        part("error", self.error.as_deref());
        match self.find("namespace") {
            Some(namespace) => results.add(namespace, text),
            None => results.add_velero(text),
        }
    }

    /// Warnings and errors also go to the log of the process; everything else would drown it.
    fn tell(&self, message: &str) {
        let (key, subject) = &self.journal.shared.subject;
        let subject = subject.rsplit_once('/').map_or(subject.as_str(), |(_, name)| name);
        let of_restore = *key == RESTORE;
        let (backup, restore) = ((!of_restore).then_some(subject), of_restore.then_some(subject));
        let parts: Vec<_> = ["resource", "namespace", "name"].into_iter().filter_map(|key| self.find(key)).collect();
        let item = (!parts.is_empty()).then(|| parts.join("/"));
        let (item, error) = (item.as_deref(), self.error.as_deref());
        match self.level {
            Level::Error => tracing::error!(backup, restore, item, error, "{message}"),
            Level::Warning => tracing::warn!(backup, restore, item, error, "{message}"),
            Level::Info | Level::Debug => {}
        }
    }
}

#[cfg(test)]
mod tests;
