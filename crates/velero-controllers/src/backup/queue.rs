//! Lets backups wait for their turn.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupPhase};
use velero_cluster::{Error as ClusterError, ListedMetadata, list_metadata_kept};
use velero_rules::includes_excludes::NamespaceFilter;
use velero_rules::queue::{QueueEntry, QueueState, next_position, plan};

use crate::backup::places::{Places, Turn};
use crate::lifecycle::phase::move_to;
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::lock::lock;

/// How soon a backup asks again that is ready and has no place.
const WITHOUT_PLACE: Duration = Duration::from_secs(5);

/// Who waits and who runs.
#[derive(Default)]
pub(crate) struct Queue {
    /// Positions and places are given by one at a time.
    turn: tokio::sync::Mutex<()>,
    /// Who of those this process is working on has a place.
    places: Mutex<Places>,
}

impl Queue {
    /// Notes that a backup does not run any more.
    pub(super) fn left(&self, backup: &str) {
        self.places().leave(backup);
    }

    /// Has a backup leave its place to others, as its start is refused; gives the time after which it comes again.
    pub(super) fn put_off(&self, backup: &str) -> Duration {
        self.places().put_off(backup, Instant::now())
    }

    /// Whether as many backups run as may.
    pub(super) fn is_full(&self, context: &Context) -> bool {
        self.places().count() >= limit(context)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }

    /// Lets a backup begin that is ready, or gives the time after which it comes again: it may have been put off, or be ready
    /// since before this server started.
    pub(super) async fn admit(&self, context: &Context, backup: &str) -> Result<Option<Duration>> {
        let turn = self.places().come(backup, Instant::now());
        match turn {
            Turn::HasCome => return Ok(None),
            Turn::IsPutOff(rest) => return Ok(Some(rest)),
            Turn::IsAwaited if self.is_full(context) => return Ok(Some(WITHOUT_PLACE)),
            Turn::IsAwaited => {}
        }
        let _one_at_a_time = self.turn.lock().await;
        let backups = waiting_or_running(context).await?;
        let namespaces = namespaces_for(context, &backups).await?;
        let plan = plan(&self.entries(&backups, &namespaces), limit(context));
        if !plan.begin.iter().any(|next| next == backup) {
            return Ok(Some(WITHOUT_PLACE));
        }
        self.places().take(backup);
        Ok(None)
    }

    /// Puts new backups into the queue and starts those whose turn it is.
    pub(super) async fn advance(&self, context: &Context) -> Result<()> {
        let _one_at_a_time = self.turn.lock().await;
        let mut backups = waiting_or_running(context).await?;
        let position = next_position(&self.entries(&backups, &[]));
        enqueue(context, &mut backups, position).await?;
        let namespaces = namespaces_for(context, &backups).await?;
        while let Some(refused) = self.move_up(context, &mut backups, &namespaces).await? {
            // The others have their turn as if it were not there.
            backups.remove(&refused);
        }
        Ok(())
    }

    /// Starts the backups whose turn it is and renumbers those behind them; gives the first that the API server refuses to
    /// change.
    async fn move_up(
        &self,
        context: &Context,
        backups: &mut BTreeMap<String, Backup>,
        namespaces: &[String],
    ) -> Result<Option<String>> {
        // Who is to begin comes and asks for that; until then its place is free, and for nobody else.
        let plan = plan(&self.entries(backups, namespaces), limit(context));
        for (backup, position) in plan.renumber {
            let renumbered = change(context, backups, &backup, |backup| {
                backup.status.queue_position = position;
                Ok(())
            });
            let Some(renumbered) = unless_refused(&backup, renumbered.await)? else { return Ok(Some(backup)) };
            backups.insert(backup, renumbered);
        }
        for backup in plan.start {
            self.places().keep(&backup);
            let started = change(context, backups, &backup, |backup| {
                backup.status.queue_position = 0;
                move_to(backup, BackupPhase::ReadyToStart)
            });
            let started = started.await.inspect_err(|_| self.places().keep_no_longer(&backup));
            let Some(started) = unless_refused(&backup, started)? else { return Ok(Some(backup)) };
            tracing::info!(backup, "Dequeueing backup, moving to ReadyToStart");
            backups.insert(backup, started);
        }
        Ok(None)
    }

    /// What the plan is made of. Read after the list of the backups: who has left a place since is counted once too often at most.
    fn entries(&self, backups: &BTreeMap<String, Backup>, existing: &[String]) -> Vec<QueueEntry> {
        let (places, now) = (self.places(), Instant::now());
        let entry = |backup: &Backup| Some(entry(backup, places.state(backup, now)?, existing));
        backups.values().filter_map(entry).collect()
    }
}

/// How many backups may run at the same time.
fn limit(context: &Context) -> usize {
    usize::try_from(context.settings.concurrent_backups).unwrap_or(usize::MAX)
}

async fn waiting_or_running(context: &Context) -> Result<BTreeMap<String, Backup>> {
    let mut found = BTreeMap::new();
    let visitor = |backup: Backup| {
        let going = backup.metadata.deletion_timestamp.is_some();
        // Nobody works on what another server has taken: its end could not be written yet.
        let is_lost = *backup.status.phase() == BackupPhase::InProgress && !context.holder.has(&backup);
        if !going && !is_lost && backup.status.phase().stage().has_items_to_come() {
            found.insert(name(&backup).to_owned(), backup);
        }
    };
    context.objects.visit("", visitor).await?;
    Ok(found)
}

/// Puts new backups into the queue, from a position on.
async fn enqueue(context: &Context, backups: &mut BTreeMap<String, Backup>, mut position: i64) -> Result<()> {
    for backup in newcomers(backups) {
        let queued = change(context, backups, &backup, |backup| {
            backup.status.queue_position = position;
            move_to(backup, BackupPhase::Queued)
        });
        let Some(queued) = unless_refused(&backup, queued.await)? else { continue };
        tracing::info!(backup, position, "Queueing backup");
        backups.insert(backup, queued);
        position += 1;
    }
    Ok(())
}

/// What became of a backup that was to be changed; nothing where the API server refuses that, which is told.
fn unless_refused(backup: &str, changed: Result<Backup>) -> Result<Option<Backup>> {
    match changed {
        Err(Error::Cluster(error)) if is_refusal(&error) => {
            let error = describe(&error);
            tracing::error!(
                backup,
                error,
                "The API server refuses to let the backup move in the queue; it is tried again"
            );
            Ok(None)
        }
        changed => changed.map(Some),
    }
}

/// Whether the API server has certainly not made a change, for a reason that may lie in this one object.
pub(super) fn is_refusal(error: &ClusterError) -> bool {
    use ClusterError::{Forbidden, Invalid, Other};
    matches!(error, Forbidden(_) | Invalid(_) | Other(_)) || error.is_kept_back_by_webhook()
}

/// The names of backups that are not in the queue yet, oldest first.
fn newcomers(backups: &BTreeMap<String, Backup>) -> Vec<String> {
    let mut new: Vec<_> = backups.values().filter(|backup| *backup.status.phase() == BackupPhase::New).collect();
    new.sort_by_key(|backup| (backup.metadata.creation_timestamp.as_ref().map(|time| time.0), name(*backup)));
    new.into_iter().map(|backup| name(backup).to_owned()).collect()
}

fn entry(backup: &Backup, state: QueueState, existing: &[String]) -> QueueEntry {
    // Patterns that cannot be read are told by the validation; here they are in nobody's way.
    let filter = NamespaceFilter::expand(&backup.spec.included_namespaces, &backup.spec.excluded_namespaces, existing);
    let namespaces = filter.map(|filter| filter.resolve(existing.iter().map(String::as_str))).unwrap_or_default();
    QueueEntry { name: name(backup).to_owned(), state, namespaces }
}

/// The namespaces of the cluster, where backups can be in each other's way.
async fn namespaces_for(context: &Context, backups: &BTreeMap<String, Backup>) -> Result<Vec<String>> {
    if backups.len() > 1 { existing_namespaces(context).await } else { Ok(Vec::new()) }
}

async fn existing_namespaces(context: &Context) -> Result<Vec<String>> {
    let keep = |metadata: ListedMetadata| Some(metadata.name);
    let listed = list_metadata_kept::<Namespace, _>(context.objects.cluster().client(), keep).await;
    Ok(listed.map_err(|error| ClusterError::from_kube("list namespaces", error))?)
}

async fn change(
    context: &Context,
    backups: &BTreeMap<String, Backup>,
    backup: &str,
    change: impl FnOnce(&mut Backup) -> Result<()>,
) -> Result<Backup> {
    let missing = || Error::invalid("Backup", backup, "it left the queue");
    let before = backups.get(backup).ok_or_else(missing)?;
    let mut after = before.clone();
    change(&mut after)?;
    context.objects.patch(before, &after).await
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn backup(name: &str, phase: BackupPhase, second: i64) -> (String, Backup) {
        let mut backup = Backup::new("velero", name, Default::default());
        backup.status.phase = Some(phase);
        backup.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
        (name.to_owned(), backup)
    }

    #[test]
    fn a_backup_is_passed_over_only_where_it_is_known_that_it_was_not_changed() {
        let failing = "Internal error occurred: failed calling webhook \"w\": the server could not find it";
        for (code, message, is_passed_over) in
            [(403, "no", true), (422, "no", true), (500, failing, true), (500, "no", false), (504, "no", false)]
        {
            let status = kube::core::Status::failure(message, "").with_code(code);
            let refused = Err(Error::Cluster(ClusterError::from_status("patch backups b", status)));
            let passed_over = matches!(unless_refused("b", refused), Ok(None));
            assert_eq!(passed_over, is_passed_over, "{code} {message}");
        }
    }

    #[test]
    fn newcomers_queue_in_the_order_they_were_made() {
        let backups: BTreeMap<_, _> =
            [backup("a", BackupPhase::New, 3), backup("b", BackupPhase::New, 1), backup("c", BackupPhase::Queued, 0)]
                .into();
        assert_eq!(newcomers(&backups), ["b", "a"]);
    }

    #[test]
    fn a_backup_takes_the_namespaces_that_there_are_of_those_it_names() {
        let existing = ["shop".to_owned(), "db".to_owned()];
        let mut running = backup("a", BackupPhase::InProgress, 0).1;
        running.spec.included_namespaces = vec!["s*".to_owned()];
        let found = entry(&running, QueueState::Running, &existing);
        assert_eq!(found.state, QueueState::Running);
        assert_eq!(found.namespaces, ["shop".to_owned()].into());
        let waiting = entry(&backup("c", BackupPhase::Queued, 0).1, QueueState::Queued { position: 1 }, &existing);
        assert_eq!(waiting.namespaces.len(), 2);
    }
}
