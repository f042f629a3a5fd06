//! The steps of the removal. Each can be done again.

use std::sync::Arc;
use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupPhase, Restore};
use velero_engine::delete::DeleteError;
use velero_plugin::DeleteItemAction;
use velero_rules::deletion::Step;
use velero_store::{BackupStore, blocking_reader};

use crate::backup::deletion::snapshots::forget_snapshots;
use crate::backup::deletion::transfers::{end_transfers, remove_transfers};
use crate::backup::unreadable::read_again;
use crate::backup::volumes::{self, Why};
use crate::lifecycle::cancel::try_cancel_owned;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::lifecycle::poll::until_ended;
use crate::restore::kept_files::let_go_of_files;
use crate::restore::of_backup::{restores_of, running_restores};
use crate::runtime::busy::Hold;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::events;

/// How long is waited at a time for who works on a backup or restore. They leave within deadlines of their own; others
/// are not to wait for that.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long restores may take to go away.
const RESTORES_DEADLINE: Duration = Duration::from_secs(60);

/// How a step of the removal went.
pub(super) enum Outcome {
    Done,
    /// Somebody needs more time.
    Wait(String),
    /// What is left, in words.
    Left(Vec<String>),
}

/// A removal in hand.
pub(super) struct Removal<'a> {
    context: &'a Context,
    /// The restores of the backup that were ended; nobody else may work on them until it ends.
    ended_restores: Vec<Hold<'a>>,
}

impl<'a> Removal<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context, ended_restores: Vec::new() }
    }

    /// Does one step of the removal. An error is one that may pass: the deletion is entered again.
    pub(super) async fn carry_out(
        &mut self,
        step: &Step,
        backup: &mut Backup,
        store: Option<&BackupStore>,
    ) -> Result<Outcome> {
        let context = self.context;
        let left = match (step, store) {
            (Step::Mark, _) => {
                *backup = mark(context, backup).await?;
                Vec::new()
            }
            (Step::EndWork, Some(store)) => return self.end_work(backup, store).await,
            (Step::RemoveSnapshots, Some(store)) => remove_snapshots(context, backup, store).await?,
            (Step::RemoveFiles, Some(store)) => match store.delete_backup(name(backup)).await {
                Ok(()) => Vec::new(),
                Err(error) => vec![format!("error deleting the files of the backup: {}", describe(&error))],
            },
            (Step::RemoveRestores, store) => return self.remove_restores(backup, store).await,
            (Step::RemoveObject, _) => {
                context.objects.delete(backup).await?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        Ok(if left.is_empty() { Outcome::Done } else { Outcome::Left(left) })
    }

    /// Cancels the operations of the backup, ends the restores that run from it, and waits a while for both.
    async fn end_work(&mut self, backup: &Backup, store: &BackupStore) -> Result<Outcome> {
        let context = self.context;
        let running = try_cancel_owned(context, backup, Some(store)).await?;
        if !running.is_empty() {
            until_ended(running, &context.plugins.for_questions()?.actions, backup).await;
        }
        end_transfers(context, backup).await?;
        let restores = running_restores(context, name(backup)).await?;
        if restores.is_empty() {
            return Ok(Outcome::Done);
        }
        let names: Vec<&str> = restores.iter().map(name).collect();
        let note = format!("restores that run from the backup end with its deletion: {}", names.join(", "));
        tracing::warn!(backup = name(backup), "{note}");
        events::warn(context, backup, "velero-backup-deletion", "RestoresEnded", "Delete", note).await;
        for restore in &restores {
            let Some(hold) = context.restores.busy.take_over(name(restore), PATIENCE).await else {
                return Ok(Outcome::Wait(format!("restore {} has not ended yet", name(restore))));
            };
            self.ended_restores.push(hold);
            let running = try_cancel_owned(context, restore, Some(store)).await?;
            until_ended(running, &context.plugins.for_questions()?.actions, restore).await;
        }
        context.rest_plugins().await;
        Ok(Outcome::Done)
    }

    /// Deletes the restores of the backup with their files, and waits until they are gone.
    async fn remove_restores(&mut self, backup: &Backup, store: Option<&BackupStore>) -> Result<Outcome> {
        let context = self.context;
        for restore in restores_of(context, name(backup)).await? {
            let is_held = self.ended_restores.iter().any(|hold| hold.is_of(name(&restore)));
            let hold = if is_held { None } else { context.restores.busy.take_over(name(&restore), PATIENCE).await };
            if !is_held && hold.is_none() {
                return Ok(Outcome::Wait(format!("the work on restore {} has not ended yet", name(&restore))));
            }
            if let Some(store) = store {
                store.delete_restore(name(&restore)).await?;
            }
            if let Some(restore) = context.objects.get::<Restore>(name(&restore)).await? {
                let_go_of_files(context, &restore).await?;
            }
            context.objects.delete(&restore).await?;
        }
        let deadline = tokio::time::Instant::now() + RESTORES_DEADLINE;
        loop {
            let left = restores_of(context, name(backup)).await?;
            let Some(restore) = left.first() else { return Ok(Outcome::Done) };
            if tokio::time::Instant::now() >= deadline {
                let problem = format!("Restore {:?} is still there after a minute", name(restore));
                return Ok(Outcome::Left(vec![format!("{problem}; look at its finalizers")]));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn mark(context: &Context, backup: &Backup) -> Result<Backup> {
    if *backup.status.phase() == BackupPhase::Deleting {
        return Ok(backup.clone());
    }
    let mut deleting = backup.clone();
    move_to(&mut deleting, BackupPhase::Deleting)?;
    context.objects.patch(backup, &deleting).await
}

/// Removes the snapshots of a backup, at drivers and in repositories; gives what is left.
async fn remove_snapshots(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Vec<String>> {
    if let Err(error) = run_delete_actions(context, backup, store).await {
        return Ok(vec![format!("error running delete item actions: {}", describe(&error))]);
    }
    let mut left = volumes::remove(context, backup, store, Why::Deleted).await;
    left.extend(forget_snapshots(context, backup, store).await?);
    // They are all that is known of snapshots that no file tells of.
    if left.is_empty() {
        remove_transfers(context, backup).await?;
    }
    Ok(left)
}

/// Lets the delete item actions see the items of a backup; what one of them cannot do is told in the log only. An
/// archive that is not there has no items, and a damaged one must not keep its backup from being deleted. But it may have been
/// damaged on its way here, and who goes on then loses track of snapshots: it is read again before that is believed.
async fn run_delete_actions(context: &Context, backup: &Backup, store: &BackupStore) -> Result<()> {
    let is_needed = |action: &Arc<dyn DeleteItemAction>| action.is_needed(backup);
    if !context.plugins.for_questions()?.actions.delete_item().iter().any(is_needed) {
        return Ok(());
    }
    let unread = |seen: &Result<Option<DeleteError>>| Some(describe(seen.as_ref().ok()?.as_ref()?));
    if let Some(error) = read_again(name(backup), || show_items(context, backup, store), unread).await? {
        let (backup, error) = (name(backup), describe(&error));
        tracing::warn!(backup, error, "Delete item actions did not see all items");
    }
    Ok(())
}

/// Shows the delete item actions the items of an archive; gives why they did not see all of them.
async fn show_items(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Option<DeleteError>> {
    let archive = match store.get_contents(name(backup)).await {
        Err(error) if error.is_not_found() => return Ok(None),
        archive => archive?,
    };
    let journal = backup.journal(context);
    let (archive, limits) = (blocking_reader(archive), context.settings.archive_limits());
    let tools = context.plugins.open(Some(&journal)).await?;
    let seen = velero_engine::delete::run(backup, archive, limits, &tools.actions, &tools.discovery, &journal).await;
    tools.close().await;
    match seen {
        Err(DeleteError::Action(error)) => Err(error.into()),
        seen => Ok(seen.err()),
    }
}
