//! The files of a backup or restore that change while it waits: operations, results and log.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use velero_api::records::{Results, ResultsFile};
use velero_archive::{BackupFile, RestoreFile, gzjson};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_store::{BackupStore, Error as StoreError};

use crate::runtime::error::Result;

/// Whether something is a backup or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A backup.
    Backup,
    /// A restore.
    Restore,
}

impl Work {
    /// How messages call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

/// Something that may not be what it should, and then what is wrong with it in words.
pub(crate) enum Found<T> {
    /// It can be used.
    Usable(T),
    /// It cannot, and no second look will change that.
    Unusable(String),
}

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    /// The operations and how they go.
    Operations,
    /// Warnings and errors.
    Results,
    /// The log.
    Log,
}

/// The files of one backup or restore.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    store: &'a BackupStore,
    work: Work,
    name: &'a str,
}

impl<'a> Files<'a> {
    /// The files of the backup or restore of a name.
    pub(crate) fn new(store: &'a BackupStore, work: Work, name: &'a str) -> Self {
        Self { store, work, name }
    }

    /// Reads a file as it is stored; `None` when there is none.
    async fn get(&self, file: File) -> Result<Option<Bytes>, StoreError> {
        match self.work {
            Work::Backup => self.store.get_file(self.name, backup_file(file)).await,
            Work::Restore => self.store.get_restore_file(self.name, restore_file(file)).await,
        }
    }

    /// Writes a file.
    async fn put(&self, file: File, content: Bytes) -> Result<(), StoreError> {
        match self.work {
            Work::Backup => self.store.put_file(self.name, backup_file(file), content).await,
            Work::Restore => self.store.put_restore_file(self.name, restore_file(file), content).await,
        }
    }

    /// Writes the operations.
    pub(crate) async fn put_operations<O: Serialize>(&self, operations: &[O]) -> Result<(), StoreError> {
        self.put(File::Operations, gzjson::encode(operations)?.into()).await
    }

    /// Reads the operations; an error says that the store could not be asked.
    pub(crate) async fn operations<O: DeserializeOwned>(&self) -> Result<Found<Vec<O>>, StoreError> {
        let Some(content) = self.get(File::Operations).await? else {
            return Ok(Found::Unusable("the file of its operations is not in the location".to_owned()));
        };
        Ok(match gzjson::decode::<Option<Vec<O>>>(&content, gzjson::DEFAULT_LIMIT) {
            Ok(operations) => Found::Usable(operations.unwrap_or_default()),
            Err(error) => Found::Unusable(format!("the file of its operations cannot be read: {error}")),
        })
    }

    /// Reads the operations; none where there is no file of them, or a broken one.
    pub(crate) async fn readable_operations<O: DeserializeOwned>(&self) -> Result<Vec<O>, StoreError> {
        Ok(match self.operations().await? {
            Found::Usable(operations) => operations,
            Found::Unusable(_) => Vec::new(),
        })
    }

    /// Writes all that a journal says: results, then log.
    pub(crate) async fn put_journal(&self, journal: &Journal) -> Result<(), StoreError> {
        let log = journal.compressed_log().map_err(velero_archive::Error::Write)?;
        self.put(File::Results, gzjson::encode(&journal.results())?.into()).await?;
        self.put(File::Log, log).await
    }

    /// How many warnings and errors the results have, the `known` ones at least: who was stopped after it had added to them did
    /// not tell so.
    pub(crate) async fn told(&self, known: Counts) -> Result<Counts, StoreError> {
        let stored = self.get(File::Results).await?;
        let results = stored.and_then(|content| gzjson::decode::<ResultsFile>(&content, gzjson::DEFAULT_LIMIT).ok());
        Ok(at_least(known, &results.unwrap_or_default()))
    }

    /// Adds what a journal says to the results and the log; gives how many warnings and errors there are then. Should
    /// results be lost, the `known` ones still count. With `once`, what the results say already is not said again.
    pub(crate) async fn amend(&self, journal: &Journal, known: Counts, once: bool) -> Result<Counts, StoreError> {
        let stored = self.get(File::Results).await?;
        let stored = stored.map(|content| gzjson::decode::<ResultsFile>(&content, gzjson::DEFAULT_LIMIT));
        // More than is read again stays as it is: what is added is in the log and counted.
        let is_closed = stored.as_ref().is_some_and(is_too_large);
        // Results that cannot be read are begun anew: the counts are known from the status.
        let mut results = stored.and_then(Result::ok).unwrap_or_default();
        let more = journal.results();
        let said = add(&mut results, more, once);
        let known = Counts { warnings: known.warnings + said.warnings, errors: known.errors + said.errors };
        let counts = at_least(known, &results);
        if said != Counts::default() && !is_closed {
            self.put(File::Results, gzjson::encode(&results)?.into()).await?;
        }
        // A gzip file may consist of several members.
        let mut log = self.get(File::Log).await?.map(Vec::from).unwrap_or_default();
        log.extend_from_slice(&journal.compressed_log().map_err(velero_archive::Error::Write)?);
        self.put(File::Log, log.into()).await?;
        Ok(counts)
    }
}

/// The counts of results, or the known ones where these are more.
fn at_least(known: Counts, results: &ResultsFile) -> Counts {
    let counted = |known: i64, all: usize| known.max(i64::try_from(all).unwrap_or_default());
    Counts {
        warnings: counted(known.warnings, results.warnings.len()),
        errors: counted(known.errors, results.errors.len()),
    }
}

fn is_too_large(read: &Result<ResultsFile, velero_archive::Error>) -> bool {
    matches!(read, Err(velero_archive::Error::TooLarge { .. }))
}

/// Adds results to others; says how much there was to add.
fn add(results: &mut ResultsFile, mut more: ResultsFile, once: bool) -> Counts {
    if once {
        keep_news(&mut more.errors, &results.errors);
        keep_news(&mut more.warnings, &results.warnings);
    }
    let number = |results: &Results| i64::try_from(results.len()).unwrap_or(i64::MAX);
    let added = Counts { warnings: number(&more.warnings), errors: number(&more.errors) };
    results.errors.merge(more.errors);
    results.warnings.merge(more.warnings);
    added
}

/// Drops from results what others say already.
fn keep_news(more: &mut Results, known: &Results) {
    more.velero.retain(|text| !known.velero.contains(text));
    more.cluster.retain(|text| !known.cluster.contains(text));
    for (namespace, texts) in &mut more.namespaces {
        let known = known.namespaces.get(namespace);
        texts.retain(|text| !known.is_some_and(|known| known.contains(text)));
    }
    more.namespaces.retain(|_, texts| !texts.is_empty());
}

fn backup_file(file: File) -> BackupFile {
    match file {
        File::Operations => BackupFile::ItemOperations,
        File::Results => BackupFile::Results,
        File::Log => BackupFile::Log,
    }
}

fn restore_file(file: File) -> RestoreFile {
    match file {
        File::Operations => RestoreFile::ItemOperations,
        File::Results => RestoreFile::Results,
        File::Log => RestoreFile::Log,
    }
}

#[cfg(test)]
mod tests {
    use velero_engine::journal::{Level, LogFormat};

    use super::*;

    fn results(texts: &[&str]) -> ResultsFile {
        let journal = Journal::for_restore("velero", "r", LogFormat::Text, Level::Info);
        texts.iter().for_each(|text| journal.error().namespace(Some("shop")).message(text));
        journal.results()
    }

    #[test]
    fn results_too_large_to_be_read_again_are_told_from_damaged_ones() {
        let stored = gzjson::encode(&results(&["a", "b"])).unwrap();
        for (content, limit, too_large) in
            [(&stored[..], 1000, false), (&stored, 10, true), (&stored[..10], 1000, false)]
        {
            assert_eq!(is_too_large(&gzjson::decode(content, limit)), too_large, "{limit}");
        }
    }

    #[test]
    fn what_is_told_already_is_told_again_only_when_it_happened_again() {
        let mut known = results(&["a", "b"]);
        let errors = |errors| Counts { errors, warnings: 0 };
        assert_eq!(add(&mut known, results(&["b", "c"]), true), errors(1));
        assert_eq!(known.errors.namespaces["shop"], ["a", "b", "c"]);
        assert_eq!(add(&mut known, results(&["a", "c"]), true), errors(0));
        assert_eq!(add(&mut known, results(&["a"]), false), errors(1));
        assert_eq!(known.errors.len(), 4);
        let careful = || {
            let journal = Journal::for_restore("velero", "r", LogFormat::Text, Level::Info);
            journal.warning().message("careful");
            journal.results()
        };
        assert_eq!(add(&mut known, careful(), true), Counts { errors: 0, warnings: 1 });
        assert_eq!(add(&mut known, careful(), true), errors(0), "warnings too");
    }
}
