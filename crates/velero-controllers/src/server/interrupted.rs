//! Ends what an earlier server was working on: nobody is working on it any more.

use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::{Backup, Restore};

use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::failed;
use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::{Result, describe};
use crate::runtime::ownership::End;
use crate::{backup, restore};

/// How long a store may take to tell what an interrupted backup left in it.
const STORE_PATIENCE: Duration = Duration::from_secs(30);

/// Marks what an earlier server was working on as failed.
pub(super) async fn fail_interrupted(context: &Context) -> Result<()> {
    for backup in in_progress::<Backup>(context).await? {
        fail_interrupted_backup(context, &backup).await?;
    }
    for restore in in_progress::<Restore>(context).await? {
        if let Some(failed) = fail(context, &restore, restore::debts::LEFT_BEHIND, |_| ()).await? {
            pay(&failed, restore::debts::pay(context, &failed)).await;
        }
    }
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

/// Ends a backup that nobody works on any more, unless its files say that it had ended.
async fn fail_interrupted_backup(context: &Context, backup: &Backup) -> Result<()> {
    let stored = tokio::time::timeout(STORE_PATIENCE, backup::debts::stored_end(context, backup)).await;
    if let Ok(Ok(Some(stored))) = stored {
        let ended = backup::debts::with_stored_end(backup, stored);
        context.write_end(backup, &ended).await?;
        tracing::info!(backup = name(backup), "The backup had ended when the server was stopped");
        return Ok(());
    }
    let note = |failed: &mut Backup| backup::again::owe_retry(failed, backup);
    if let Some(failed) = fail(context, backup, backup::debts::LEFT_BEHIND, note).await? {
        pay(&failed, backup::debts::pay(context, &failed)).await;
    }
    Ok(())
}

/// Writes that one failed that nobody works on any more. That its run left something behind is written with the end, so
/// that whoever comes next knows; `note` says what else is.
async fn fail<K: Kind>(
    context: &Context,
    object: &K,
    left_behind: &str,
    note: impl FnOnce(&mut K),
) -> Result<Option<K>> {
    let word = K::WORK.word();
    let found =
        || format!(r#"found a {word} with status "InProgress" during the server starting, mark it as "Failed""#);
    let reason = requested(object).unwrap_or_else(found);
    let mut failed = failed(object, reason.clone())?;
    owe(&mut failed, left_behind);
    note(&mut failed);
    let End::Written(failed) = context.write_end(object, &failed).await? else { return Ok(None) };
    tracing::warn!(kind = word, name = name(object), "{reason}");
    Ok(Some(failed))
}

/// Waits a while for what is owed to be paid; what is not paid then is tried again later.
async fn pay<K: Kind>(object: &K, paying: impl Future<Output = Result<Next>>) {
    let problem = match tokio::time::timeout(STORE_PATIENCE, paying).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => describe(&error),
        Err(_) => format!("its location did not answer within {STORE_PATIENCE:?}"),
    };
    let (kind, name) = (K::WORK.word(), name(object));
    tracing::warn!(kind, name, problem, "What the interrupted run left is cleaned up later");
}
