//! Deletes a backup with its snapshots, files and restores.
//!
//! `velero_rules::deletion` says what comes next; here it is done. A request is worked on until it is Processed: what
//! fails for a while, is interrupted or meets another write is entered again from what is known then.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams};
use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::v1::{Backup, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase};
use velero_rules::deletion::{BackupFacts, Facts, Inspection, Step, after, enter};
use velero_rules::retention::LocationState;
use velero_store::BackupStore;

use crate::backup::deletion::inspect::obstacle;
use crate::backup::deletion::removal::{Outcome, PATIENCE, Removal};
use crate::backup::deletion::requests::selector;
use crate::backup::reservation::owns_files;
use crate::location::state::location_state;
use crate::runtime::busy::Hold;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler, WHILE_HELD};
use crate::runtime::error::{Result, describe};
use crate::runtime::metrics::Counter;

/// How long a request that was dealt with is kept, and one is worked on that cannot be carried out.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How soon a location that is away is looked at again.
const PAUSE: Duration = Duration::from_secs(30);

/// Watches DeleteBackupRequests.
pub(crate) struct BackupDeletionReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for BackupDeletionReconciler {
    type Kind = DeleteBackupRequest;
    const CONTROLLER: Controller = Controller::BackupDeletion;

    async fn reconcile(&self, request: DeleteBackupRequest) -> Result<Next> {
        let deletion = Deletion::new(&self.context, request).carry_out();
        // A server that is told to end leaves the rest to the next one, as one does that is killed.
        self.context.stop.run_until_cancelled(deletion).await.unwrap_or(Ok(Next::Change))
    }
}

/// A deletion in hand: what is known, and what nobody else may work on until it ends.
struct Deletion<'a> {
    context: &'a Context,
    request: DeleteBackupRequest,
    backup: Option<Backup>,
    location: Option<BackupStorageLocation>,
    store: Option<BackupStore>,
    inspection: Option<Inspection>,
    hold: Option<Hold<'a>>,
    removal: Removal<'a>,
}

impl<'a> Deletion<'a> {
    fn new(context: &'a Context, request: DeleteBackupRequest) -> Self {
        Self {
            context,
            request,
            backup: None,
            location: None,
            store: None,
            inspection: None,
            hold: None,
            removal: Removal::new(context),
        }
    }

    async fn carry_out(mut self) -> Result<Next> {
        let mut left = Vec::new();
        let mut step = self.look().await?;
        loop {
            step = match step {
                Step::Expire => return self.expire().await,
                Step::Refuse(problem) => return self.refuse(problem).await,
                Step::Wait(reason) => return Ok(self.wait(&reason)),
                Step::Finish => return self.finish(left).await,
                Step::Inspect => match self.inspect().await? {
                    None => self.look().await?,
                    Some(problem) => Step::Refuse(problem),
                },
                Step::Begin => {
                    self.begin().await?;
                    self.look().await?
                }
                Step::TakeOver => {
                    let busy = &self.context.backups.busy;
                    self.hold = busy.take_over(&self.request.spec.backup_name, PATIENCE).await;
                    if self.hold.is_some() {
                        // Its run may have ended only now, and said so.
                        self.look().await?
                    } else {
                        Step::Wait("the work on the backup has not ended yet".to_owned())
                    }
                }
                removal => match self.remove(&removal).await? {
                    Outcome::Done => after(&removal, true),
                    Outcome::Wait(reason) => Step::Wait(reason),
                    Outcome::Left(problems) => {
                        left = problems;
                        after(&removal, false)
                    }
                },
            };
        }
    }

    async fn remove(&mut self, step: &Step) -> Result<Outcome> {
        let Some(backup) = &mut self.backup else { return Ok(Outcome::Done) };
        match self.removal.carry_out(step, backup, self.store.as_ref()).await {
            // A repository that is away is waited for, but not for ever.
            Err(error) if *step == Step::RemoveSnapshots && self.age() >= LONGEST_LIFE => {
                Ok(Outcome::Left(vec![describe(&error)]))
            }
            outcome => outcome,
        }
    }

    /// Reads the backup and its location; gives the step that follows from them.
    async fn look(&mut self) -> Result<Step> {
        let (objects, wanted) = (&self.context.objects, &self.request.spec.backup_name);
        let in_question = *self.request.status.phase() != DeleteBackupRequestPhase::Processed && !wanted.is_empty();
        self.backup = if in_question { objects.get(wanted).await? } else { None };
        self.location = match self.backup.as_ref().map(|backup| &backup.spec.storage_location) {
            Some(place) if !place.is_empty() => objects.get(place).await?,
            _ => None,
        };
        let backup = self.backup.as_ref().map(|backup| BackupFacts {
            uid: uid(backup),
            phase: backup.status.phase(),
            location: &backup.spec.storage_location,
            location_state: self.location.as_ref().map_or(LocationState::NotFound, location_state),
        });
        Ok(enter(&Facts {
            request: self.request.status.phase(),
            backup_name: wanted,
            wanted_uid: label(&self.request, labels::BACKUP_UID),
            is_old: self.age() >= LONGEST_LIFE,
            backup,
            inspection: self.inspection,
            is_held: self.hold.is_some(),
        }))
    }

    fn age(&self) -> Duration {
        let now = clock::now();
        clock::until(now, self.request.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0))
    }

    /// Looks whether everything can be removed; gives the reason where it cannot. A store that cannot be asked is an
    /// error, and asked again.
    async fn inspect(&mut self) -> Result<Option<String>> {
        let (Some(backup), Some(location)) = (&self.backup, &self.location) else { return Ok(None) };
        let store = self.context.locations.open(location).await?;
        if !owns_files(&store, backup).await? {
            let (backup, location) = (name(backup), name(location));
            tracing::warn!(backup, location, "The files of this name are those of another backup and stay");
            self.inspection = Some(Inspection::OfAnother);
            return Ok(None);
        }
        let problem = obstacle(self.context, backup, &store).await?;
        if problem.is_none() {
            (self.inspection, self.store) = (Some(Inspection::Removable), Some(store));
        }
        Ok(problem)
    }

    /// Says that the request is worked on, and for which backup. One request for a backup is enough.
    async fn begin(&mut self) -> Result<()> {
        let objects = &self.context.objects;
        let wanted = labels::valid_value(&self.request.spec.backup_name);
        for sibling in objects.list::<DeleteBackupRequest>(&format!("{}={wanted}", labels::BACKUP_NAME)).await? {
            if name(&sibling) != name(&self.request) {
                objects.delete(&sibling).await?;
            }
        }
        let mut begun = self.request.clone();
        begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
        let marks = begun.metadata.labels.get_or_insert_default();
        marks.entry(labels::BACKUP_NAME.to_owned()).or_insert(wanted);
        if let Some(backup) = &self.backup {
            marks.entry(labels::BACKUP_UID.to_owned()).or_insert_with(|| uid(backup).to_owned());
        }
        self.request = objects.force(&self.request, &begun).await?;
        self.context.metrics.count(Counter::BackupDeletionAttempt, self.schedule());
        Ok(())
    }

    fn schedule(&self) -> &str {
        self.backup.as_ref().map_or("", |backup| label(backup, labels::SCHEDULE_NAME))
    }

    fn wait(&self, reason: &str) -> Next {
        tracing::info!(backup = self.request.spec.backup_name, reason, "The deletion of the backup waits");
        if self.hold.is_some() || self.inspection.is_some() { Next::After(WHILE_HELD) } else { Next::After(PAUSE) }
    }

    async fn expire(self) -> Result<Next> {
        let left = LONGEST_LIFE.saturating_sub(self.age());
        // One that says of no error has done what it was made for.
        if !left.is_zero() && !self.request.status.errors.is_empty() {
            return Ok(Next::After(left));
        }
        self.context.objects.delete(&self.request).await?;
        Ok(Next::Change)
    }

    async fn refuse(self, problem: String) -> Result<Next> {
        let (request, backup) = (name(&self.request), &self.request.spec.backup_name);
        tracing::warn!(request, backup, problem, "The backup is not deleted");
        self.write_end(vec![problem]).await?;
        Ok(Next::After(LONGEST_LIFE))
    }

    async fn finish(self, left: Vec<String>) -> Result<Next> {
        let counter = if left.is_empty() { Counter::BackupDeletionSuccess } else { Counter::BackupDeletionFailure };
        self.context.metrics.count(counter, self.schedule());
        let backup = &self.request.spec.backup_name;
        if !left.is_empty() {
            tracing::warn!(backup, problems = left.join("; "), "The backup could not be deleted as a whole");
            self.write_end(left).await?;
            return Ok(Next::After(LONGEST_LIFE));
        }
        self.write_end(left).await?;
        tracing::info!(backup, "Backup deleted");
        let requests = ListParams::default().labels(&selector(backup, label(&self.request, labels::BACKUP_UID)));
        let api = self.context.objects.api::<DeleteBackupRequest>();
        if let Err(error) = api.delete_collection(&DeleteParams::default(), &requests).await {
            tracing::warn!(backup, %error, "The requests to delete the backup could not be removed");
        }
        Ok(Next::Change)
    }

    async fn write_end(&self, errors: Vec<String>) -> Result<()> {
        let mut finished = self.request.clone();
        finished.status.phase = Some(DeleteBackupRequestPhase::Processed);
        finished.status.errors = errors;
        self.context.objects.force(&self.request, &finished).await?;
        Ok(())
    }
}
