//! Keeps a repository small and quick. The rules are kopia's, and its schedule blob is kept in its form, so that each of
//! the two goes on where the other ended.
//!
//! ```text
//! quick ── compact an epoch ── advance the epoch
//! full ── collect ── rewrite ── drop ── delete packs ── compact ── advance ── range ── markers ── superseded ── logs
//! ```
//!
//! Every task leaves a valid repository, so it may die between any two. `rules` and `epochs` decide, the others do.

mod cleanup;
mod collect;
mod compact;
mod epochs;
pub(crate) mod mark;
mod rewrite;
mod rules;
mod schedule;
mod stats;
mod sweep;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::index::Index;
use crate::manifest::CLIENT;
use crate::repository::{MAINTENANCE, MaintenanceParameters};
use crate::store::list_all;
use crate::{Error, Repository, Result};

pub use schedule::{NextTimes, Run, SCHEDULE_BLOB, Schedule};
pub use stats::*;

const COLLECT: &str = "snapshot-gc";
const REWRITE: &str = "full-rewrite-contents";
const REWRITE_QUICK: &str = "quick-rewrite-contents";
const DROP: &str = "full-drop-deleted-content";
const DELETE_PACKS: &str = "full-delete-blobs";
const DELETE_PACKS_QUICK: &str = "quick-delete-blobs";
const COMPACT: &str = "compact-single-epoch";
const ADVANCE: &str = "advance-epoch";
const RANGE: &str = "generate-epoch-range-index";
const MARKERS: &str = "cleanup-epoch-markers";
const SUPERSEDED: &str = "delete-superseded-epoch-indexes";
const LOGS: &str = "cleanup-logs";

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Epochs only.
    Quick,
    /// Everything.
    Full,
}

/// What a maintenance does, told as it happens; in a dry run what it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<'a> {
    /// A blob is deleted.
    DeleteBlob {
        /// The blob.
        blob: &'a str,
        /// Why.
        reason: &'static str,
    },
    /// A content is marked as deleted.
    DeleteContent {
        /// The content.
        content: String,
    },
    /// A content that is marked as deleted is needed and brought back.
    UndeleteContent {
        /// The content.
        content: String,
    },
    /// Blobs stay that should have gone, because something is wrong with what replaces them.
    KeepBlobs {
        /// The epoch they belong to.
        epoch: u64,
        /// What is wrong.
        problem: String,
    },
}

/// How a maintenance is done.
pub struct MaintenanceOptions<'a> {
    /// Does this whether it is due or not; what is due by the schedule when absent.
    pub mode: Option<Mode>,
    /// Only says what it would do; nothing is written.
    pub dry_run: bool,
    /// User and host; must be those the repository belongs to.
    pub owner: String,
    /// The next times our last maintenance of this repository set: others did not move them.
    pub ours: Option<NextTimes>,
    /// Is told what happens.
    pub tell: &'a dyn Fn(&Action<'_>),
    /// Ends it between two steps.
    pub cancel: CancellationToken,
}

impl Default for MaintenanceOptions<'_> {
    fn default() -> Self {
        Self {
            mode: None,
            dry_run: false,
            owner: format!("{CLIENT}@{CLIENT}"),
            ours: None,
            tell: &|_| {},
            cancel: CancellationToken::new(),
        }
    }
}

/// Why nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// Nothing is due.
    NotDue,
    /// Somebody else began a maintenance less than an hour ago, at this time.
    BegunByOthers(Timestamp),
}

/// What a maintenance did; what was not done is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// What was done.
    pub mode: Option<Mode>,
    /// Why nothing was done.
    pub skipped: Option<Skipped>,
    /// The next times; to be given to the next maintenance as `ours`.
    pub next: Option<NextTimes>,
    /// Contents that are needed and those that are not.
    pub collect: Option<CollectStats>,
    /// Contents moved out of short packs.
    pub rewrite: Option<RewriteStats>,
    /// The new watermark.
    pub drop: Option<DropStats>,
    /// Packs and markers deleted.
    pub packs: Option<PackStats>,
    /// The epoch that was compacted.
    pub compact: Option<CompactStats>,
    /// The write epoch.
    pub advance: Option<AdvanceStats>,
    /// The range that was made.
    pub range: Option<RangeStats>,
    /// Markers deleted.
    pub markers: Option<MarkerStats>,
    /// Replaced indexes deleted.
    pub superseded: Option<SupersededStats>,
    /// Logs deleted.
    pub logs: Option<LogStats>,
}

/// Maintains a repository.
pub fn maintain(repository: &Repository, options: &MaintenanceOptions<'_>, clock: &Clock) -> Result<MaintenanceReport> {
    if !repository.blob_config().retention_mode.is_empty() {
        return Err(Error::Unsupported(
            "its blobs are under retention (object lock), which is not maintained here".to_owned(),
        ));
    }
    repository.refresh()?;
    let parameters = parameters(repository)?;
    if parameters.owner != options.owner {
        return Err(Error::NotOwner { owner: parameters.owner, me: options.owner.clone() });
    }
    let schedule = Schedule::load(repository.store().as_ref(), repository.format())?;
    let now = clock();
    let skipped =
        |reason| MaintenanceReport { skipped: Some(reason), next: Some(schedule.next()), ..Default::default() };
    let Some(mode) = options.mode.or_else(|| rules::due(&schedule, &parameters, now)) else {
        return Ok(skipped(Skipped::NotDue));
    };
    if let Some(begun) = rules::begun_by_others(&schedule, &parameters, now, options.ours) {
        return Ok(skipped(Skipped::BegunByOthers(begun)));
    }
    let mut run = Maintenance::begin(repository, options, clock, &parameters, schedule, mode)?;
    match mode {
        Mode::Quick => run.quick()?,
        Mode::Full => run.full()?,
    }
    Ok(run.report)
}

/// The parameters: of several the latest.
fn parameters(repository: &Repository) -> Result<MaintenanceParameters> {
    let found = repository.manifests(&|manifest| manifest.has_labels(&[("type", MAINTENANCE)]))?;
    let missing = || Error::malformed("the repository", "it says nowhere who maintains it");
    let latest = found.last().ok_or_else(missing)?;
    let data = latest.data.as_ref().ok_or_else(missing)?;
    serde_json::from_str(data.get()).map_err(|error| Error::malformed(format!("manifest {:?}", latest.id), error))
}

/// A maintenance under way.
struct Maintenance<'a> {
    repository: &'a Repository,
    options: &'a MaintenanceOptions<'a>,
    clock: &'a Clock,
    parameters: &'a MaintenanceParameters,
    schedule: Schedule,
    /// When it began, by the clock of the store.
    start: Timestamp,
    /// The index when it began: packs it names stay, readers may hold the same one.
    first_index: Arc<Index>,
    report: MaintenanceReport,
}

impl<'a> Maintenance<'a> {
    /// Sets the next times before anything is done, so that others stay away.
    fn begin(
        repository: &'a Repository,
        options: &'a MaintenanceOptions<'a>,
        clock: &'a Clock,
        parameters: &'a MaintenanceParameters,
        mut schedule: Schedule,
        mode: Mode,
    ) -> Result<Self> {
        let mut start = clock();
        if !options.dry_run {
            let next = rules::next_times(&schedule, parameters, mode, start);
            (schedule.next_full, schedule.next_quick) = (next.full, next.quick);
            schedule.store(repository.store().as_ref(), repository.format())?;
            let there = list_all(repository.store().as_ref(), SCHEDULE_BLOB)?;
            let there = there.iter().find(|blob| blob.id == SCHEDULE_BLOB);
            let there = there.ok_or_else(|| Error::BlobNotFound { blob: SCHEDULE_BLOB.to_owned() })?;
            start = rules::time_of(there.modified);
            if rules::is_skewed(start, clock()) {
                return Err(Error::ClockSkew { store: start, local: clock() });
            }
        }
        let first_index = Arc::clone(&repository.refresh()?.index);
        let report = MaintenanceReport { mode: Some(mode), next: Some(schedule.next()), ..Default::default() };
        Ok(Self { repository, options, clock, parameters, schedule, start, first_index, report })
    }

    fn quick(&mut self) -> Result<()> {
        self.report.compact = self.task(COMPACT, "compactSingleEpochStats", |run| run.compact_epoch())?;
        self.report.advance = self.task(ADVANCE, "advanceEpochStats", |run| run.advance_epoch())?;
        Ok(())
    }

    fn full(&mut self) -> Result<()> {
        self.report.collect = self.task(COLLECT, "snapshotGCStats", |run| run.collect())?;
        if rules::may_rewrite(&self.schedule) {
            self.report.rewrite = self.task(REWRITE, "rewriteContentsStats", |run| run.rewrite())?;
        }
        if let Some(time) = rules::safe_drop_time(&self.schedule) {
            self.report.drop = self.task(DROP, "compactIndexesStats", |run| run.drop_deleted(time))?;
        }
        if rules::may_delete_packs(&self.schedule, (self.clock)()) {
            self.report.packs = self.task(DELETE_PACKS, "deleteUnreferencedPacksStats", |run| run.delete_packs())?;
        }
        self.quick()?;
        self.report.range = self.task(RANGE, "generateRangeCheckpointStats", |run| run.make_range())?;
        self.report.markers = self.task(MARKERS, "cleanupMarkersStats", |run| run.delete_markers())?;
        self.report.superseded =
            self.task(SUPERSEDED, "cleanupSupersededIndexesStats", |run| run.delete_superseded())?;
        self.report.logs = self.task(LOGS, "cleanupLogsStats", |run| run.delete_logs())?;
        Ok(())
    }

    /// Does one task and writes down how it ended.
    fn task<T: Serialize>(
        &mut self,
        name: &str,
        kind: &str,
        work: impl FnOnce(&Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.check()?;
        let start = (self.clock)();
        let outcome = work(self);
        let end = (self.clock)();
        let (error, extra) = match &outcome {
            Ok(stats) => (String::new(), schedule::extra(kind, stats)),
            Err(error) => (error.to_string(), Vec::new()),
        };
        self.schedule.add(name, Run { start, end, success: outcome.is_ok(), error, extra });
        if !self.options.dry_run {
            let written = self
                .check()
                .and_then(|()| self.schedule.store(self.repository.store().as_ref(), self.repository.format()));
            // What failed first is what is told.
            return outcome.and_then(|stats| written.map(|()| stats));
        }
        outcome
    }

    /// Whether it may go on: nobody canceled it, and nobody else began.
    fn check(&self) -> Result<()> {
        if self.options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        if self.options.dry_run {
            return Ok(());
        }
        let there = Schedule::load(self.repository.store().as_ref(), self.repository.format())?;
        if there.next() == self.schedule.next() { Ok(()) } else { Err(Error::MaintainedElsewhere) }
    }

    /// Deletes a blob, or only says so.
    fn delete(&self, blob: &str, reason: &'static str) -> Result<()> {
        (self.options.tell)(&Action::DeleteBlob { blob, reason });
        if self.options.dry_run { Ok(()) } else { self.repository.store().delete(blob) }
    }
}
