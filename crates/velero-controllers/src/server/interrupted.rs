//! Ends what an earlier server was working on: nobody is working on it any more.
//!
//! Only the ends are written, many at a time. What the interrupted runs left is noted with them and cleaned up by those who watch
//! the objects. Usually all ends are written before this server does anything else; one that has to wait for a store, for hooks
//! or for a webhook is written beside the rest, and whoever watches its object leaves it alone until then.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::name;
use velero_api::v1::{Backup, Restore};

use crate::backup::owed_hooks::owes_hooks;
use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::failed;
use crate::lifecycle::kind::Kind;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};
use crate::runtime::ownership::End;
use crate::runtime::retry::until_read;
use crate::{backup, restore};

/// How many interrupted backups or restores are ended at the same time.
const AT_ONCE: usize = 16;

/// How long a store may take to tell what an interrupted backup left in it.
const STORE_PATIENCE: Duration = Duration::from_secs(30);

/// How long this server waits for the ends before it does anything else.
const AT_FIRST: Duration = Duration::from_secs(3);

/// What earlier servers left that is not paid by those who watch the objects.
#[derive(Default)]
pub(super) struct Left {
    /// The backups that owe hooks.
    pub(super) owing_hooks: Vec<Backup>,
    /// The backups that somebody has taken into work.
    pub(super) backups: Vec<Backup>,
    /// The same of restores.
    pub(super) restores: Vec<Restore>,
}

impl Left {
    fn see_backup(&mut self, backup: Backup) {
        if owes_hooks(&backup) {
            self.owing_hooks.push(backup.clone());
        }
        if is_in_progress(&backup) {
            self.backups.push(backup);
        }
    }
}

fn is_in_progress<K: Kind>(object: &K) -> bool {
    *object.phase() == K::IN_PROGRESS
}

/// Finds what earlier servers left, with one look at each object.
pub(super) async fn find(context: &Context) -> Result<Left> {
    let left = until_read(&context.stop, "backups", || backups_left(context)).await?;
    let restores = until_read(&context.stop, "restores", || restores_left(context)).await?;
    Ok(Left { restores, ..left })
}

async fn backups_left(context: &Context) -> Result<Left> {
    let mut left = Left::default();
    context.objects.visit("", |backup: Backup| left.see_backup(backup)).await?;
    Ok(left)
}

async fn restores_left(context: &Context) -> Result<Vec<Restore>> {
    let mut found = Vec::new();
    let visitor = |restore: Restore| {
        if is_in_progress(&restore) {
            found.push(restore);
        }
    };
    context.objects.visit("", visitor).await?;
    Ok(found)
}

/// Marks what an earlier server was working on as failed. One whose end the API server does not take stops nobody: those who
/// watch it try again.
pub(super) async fn fail_interrupted(
    context: &SharedContext,
    tasks: &mut JoinSet<()>,
    backups: Vec<Backup>,
    restores: Vec<Restore>,
) {
    if backups.is_empty() && restores.is_empty() {
        return;
    }
    let (own, ended) = (Arc::clone(context), CancellationToken::new());
    let ending = ended.clone().drop_guard();
    tasks.spawn(async move {
        end_all(&own, &backups, &restores).await;
        drop(ending);
    });
    if tokio::time::timeout(AT_FIRST, ended.cancelled()).await.is_err() {
        tracing::warn!("Not all ends of what was interrupted are written yet; this server begins to work beside that");
    }
}

async fn end_all(context: &Context, backups: &[Backup], restores: &[Restore]) {
    let mut ends: Vec<BoxFuture<'_, ()>> = Vec::with_capacity(backups.len() + restores.len());
    for backup in backups {
        // In this hand from now on, although its turn may come later.
        let hold = context.backups.busy.enter(name(backup));
        let end = async move {
            let _hold = hold;
            tell(backup, end_backup(context, backup).await);
        };
        ends.push(end.boxed());
    }
    for restore in restores {
        let hold = context.restores.busy.enter(name(restore));
        let end = async move {
            let _hold = hold;
            tell(restore, end_restore(context, restore).await);
        };
        ends.push(end.boxed());
    }
    stream::iter(ends).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Says in the log that an end could not be written.
fn tell<K: Kind>(object: &K, ended: Result<()>) {
    if let Err(error) = ended {
        let (kind, name, error) = (K::WORK.word(), name(object), describe(&error));
        tracing::error!(kind, name, error, "The end of what was interrupted is not written yet");
    }
}

/// Ends a backup that nobody works on any more, unless its files say that it had ended.
async fn end_backup(context: &Context, backup: &Backup) -> Result<()> {
    let asking = async {
        if owes_hooks(backup) {
            context.hooks_paid.cancelled().await;
        }
        tokio::time::timeout(STORE_PATIENCE, backup::debts::stored_end(context, backup)).await
    };
    let stored = tokio::select! {
        stored = asking => stored,
        // The next server asks again.
        () = context.stop.cancelled() => return Ok(()),
    };
    let ended = match stored {
        Ok(Ok(Some(stored))) => {
            tracing::info!(backup = name(backup), "The backup had ended when the server was stopped");
            backup::debts::with_stored_end(backup, stored)
        }
        _ => {
            let mut failed = interrupted(backup, backup::debts::LEFT_BEHIND)?;
            backup::again::owe_retry(&mut failed, backup);
            failed
        }
    };
    if let End::Written(written) = context.write_end_unless_refused(backup, &ended).await? {
        backup::ending::report(context, &written);
    }
    Ok(())
}

/// Ends a restore that nobody works on any more.
async fn end_restore(context: &Context, restore: &Restore) -> Result<()> {
    let failed = interrupted(restore, restore::debts::LEFT_BEHIND)?;
    if let End::Written(written) = context.write_end_unless_refused(restore, &failed).await? {
        restore::ending::report(context, &written);
    }
    Ok(())
}

/// One that failed because nobody works on it any more. That its run left something behind is written with the end, so
/// that whoever comes next knows.
fn interrupted<K: Kind>(object: &K, left_behind: &str) -> Result<K> {
    let word = K::WORK.word();
    let found =
        || format!(r#"found a {word} with status "InProgress" during the server starting, mark it as "Failed""#);
    let mut failed = failed(object, requested(object).unwrap_or_else(found))?;
    owe(&mut failed, left_behind);
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use velero_api::annotations::OWED_HOOKS;
    use velero_api::v1::BackupPhase;

    use super::*;

    #[test]
    fn one_look_at_a_backup_tells_whether_it_was_interrupted_and_whether_it_owes_hooks() {
        let mut left = Left::default();
        for (name, phase, owed) in [
            ("ran", BackupPhase::InProgress, ""),
            ("ran-and-owes", BackupPhase::InProgress, "[]"),
            ("owes", BackupPhase::Failed, "[]"),
            ("waits", BackupPhase::WaitingForPluginOperations, ""),
        ] {
            let mut backup = Backup::new("velero", name, Default::default());
            backup.metadata.annotations = Some([(OWED_HOOKS.to_owned(), owed.to_owned())].into());
            backup.status.phase = Some(phase);
            left.see_backup(backup);
        }
        let names = |backups: &[Backup]| backups.iter().map(|backup| name(backup).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&left.backups), ["ran", "ran-and-owes"]);
        assert_eq!(names(&left.owing_hooks), ["ran-and-owes", "owes"]);
    }
}
