//! Ends what an earlier server was working on: nobody is working on it any more.
//!
//! This server does nothing else before, so only the ends are written, many at a time. What the interrupted runs left is noted
//! with them and cleaned up by those who watch the objects.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use velero_api::metadata::name;
use velero_api::v1::{Backup, Restore};

use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::failed;
use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::ownership::End;
use crate::runtime::retry::until_read;
use crate::{backup, restore};

/// How many interrupted backups or restores are ended at the same time.
const AT_ONCE: usize = 16;

/// How long a store may take to tell what an interrupted backup left in it.
const STORE_PATIENCE: Duration = Duration::from_secs(30);

/// Marks what an earlier server was working on as failed. One whose end the API server does not take stops nobody: those who
/// watch it try again.
pub(super) async fn fail_interrupted(context: &Context) -> Result<()> {
    let backups = until_read(&context.stop, "backups", || in_progress::<Backup>(context)).await?;
    let restores = until_read(&context.stop, "restores", || in_progress::<Restore>(context)).await?;
    let mut ends: Vec<BoxFuture<'_, ()>> = Vec::with_capacity(backups.len() + restores.len());
    for backup in &backups {
        ends.push(async move { tell(backup, end_backup(context, backup).await) }.boxed());
    }
    for restore in &restores {
        ends.push(async move { tell(restore, end_restore(context, restore).await) }.boxed());
    }
    stream::iter(ends).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    Ok(())
}

/// The backups or restores that somebody has taken into work.
async fn in_progress<K: Kind>(context: &Context) -> Result<Vec<K>> {
    let mut found = Vec::new();
    let visitor = |object: K| {
        if *object.phase() == K::IN_PROGRESS {
            found.push(object);
        }
    };
    context.objects.visit("", visitor).await?;
    Ok(found)
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
    let stored = tokio::time::timeout(STORE_PATIENCE, backup::debts::stored_end(context, backup)).await;
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
