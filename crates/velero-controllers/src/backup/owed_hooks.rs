//! Hooks that a backup owes: written down on the Backup before others run, paid on every way out.
//!
//! The record lies in an annotation, for a hook that runs needs the API server anyway, and a store that is away must not
//! keep an application from going on. A server that starts pays what others left, and no backup begins before: it could stop the
//! same pods again.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use velero_api::annotations::OWED_HOOKS;
use velero_api::metadata::{annotation, name};
use velero_api::v1::Backup;
use velero_engine::Journal;
use velero_engine::backup::{NotWritten, OwedHooks, OwedPod, run_owed_hooks};

use crate::lifecycle::kind::Kind;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::objects::Objects;

/// How long the hooks may take that a backup owes at its end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same when the server is told to end; the next one pays what is left.
const HURRY: Duration = Duration::from_secs(10);

/// What a backup owes, written down on it.
pub(crate) fn of_backup(context: &Context, backup: &Backup) -> OwedHooks {
    let (objects, backup) = (context.objects.clone(), backup.clone());
    OwedHooks::written_by(move |owed| {
        let (objects, backup) = (objects.clone(), backup.clone());
        async move { write(&objects, &backup, &owed).await.map_err(|error| NotWritten(describe(&error))) }.boxed()
    })
}

/// Runs what a backup owes when its run is over, however it ended.
pub(crate) async fn pay(context: &Context, owed: &OwedHooks, journal: &Journal) {
    tokio::select! {
        _ = owed.pay(context.objects.cluster(), journal, PATIENCE) => {}
        () = hurry(context) => journal.error().message("The server was stopped before all hooks that are owed had run"),
    }
}

/// Ends when a server that is told to end waits no longer.
pub(super) async fn hurry(context: &Context) {
    context.stop.cancelled().await;
    tokio::time::sleep(HURRY).await;
}

/// Whether a backup owes hooks.
pub(crate) fn owes_hooks(backup: &Backup) -> bool {
    !annotation(backup, OWED_HOOKS).is_empty()
}

/// Runs what the backups of earlier servers owe, then lets backups begin. A pod may take its time, or its node be gone: nothing
/// else waits for it.
pub(crate) async fn pay_all(context: SharedContext, owing: Vec<Backup>) {
    let mut paying: Vec<BoxFuture<'_, ()>> = Vec::with_capacity(owing.len());
    for backup in &owing {
        paying.push(pay_one(&context, backup).boxed());
    }
    join_all(paying).await;
    context.hooks_paid.cancel();
}

async fn pay_one(context: &Context, backup: &Backup) {
    let journal = backup.journal(context);
    let owed = read(annotation(backup, OWED_HOOKS));
    let pods = owed.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect::<Vec<_>>().join(", ");
    tracing::info!(backup = name(backup), pods, "Running hooks that an earlier server owes");
    let hooks = &backup.spec.hooks;
    let left = tokio::select! {
        left = run_owed_hooks(context.objects.cluster(), hooks, &owed, &journal, PATIENCE) => left,
        () = hurry(context) => {
            tracing::warn!(backup = name(backup), "The server was stopped; hooks that are owed are left to the next one");
            return;
        }
    };
    for problem in journal.results().errors.namespaces.into_values().flatten() {
        tracing::error!(backup = name(backup), problem, "Hooks that were owed failed");
    }
    if let Err(error) = write(&context.objects, backup, &left).await {
        tracing::warn!(backup = name(backup), error = describe(&error), "Hooks that were paid are still written down");
    }
}

/// Writes down what is owed, in place of what was.
async fn write(objects: &Objects, backup: &Backup, owed: &[OwedPod]) -> Result<()> {
    let (mut before, mut after) = (backup.clone(), backup.clone());
    before.metadata.annotations.get_or_insert_default().insert(OWED_HOOKS.to_owned(), String::new());
    let annotations = after.metadata.annotations.get_or_insert_default();
    match owed {
        [] => annotations.remove(OWED_HOOKS),
        owed => annotations.insert(OWED_HOOKS.to_owned(), serde_json::to_string(owed).unwrap_or_default()),
    };
    match objects.force(&before, &after).await {
        // Who deleted it has nobody left to tell that all is paid.
        Err(Error::Cluster(error)) if owed.is_empty() && error.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}

/// What was written down; nothing when it cannot be read.
fn read(text: &str) -> Vec<OwedPod> {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_read_as_it_was_written() {
        let pod = |name: &str| OwedPod { namespace: "shop".to_owned(), name: name.to_owned(), uid: "1".to_owned() };
        let owed = vec![pod("db"), pod("web")];
        assert_eq!(read(&serde_json::to_string(&owed).unwrap()), owed);
        assert_eq!(read(r#"[{"namespace":"shop","name":"db","uid":"1"}]"#), [pod("db")]);
        assert!(read("not json").is_empty());
    }
}
