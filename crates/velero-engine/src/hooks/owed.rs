//! Pods in which hooks ran before they are stored, and in which those that follow have not run yet.
//!
//! A pre hook may have stopped an application, so it owes its post hook whatever becomes of the backup. Each such pod is
//! written down before its first hook runs, and struck off after its last. Hooks run on tasks of their own: a backup that
//! is given up does not break off a command in the middle. Then whoever gave it up pays what is owed, and when the
//! server was killed the next one does, from what was written down.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use serde::{Deserialize, Serialize};
use tokio::task::JoinError;
use tokio::time::Instant;
use tracing::Instrument;
use velero_api::type_names::PODS;
use velero_api::v1::BackupHooks;
use velero_cluster::{Cluster, ItemRef, types};
use velero_rules::hooks::{HookPhase, HookRules};

use super::{HookFailure, HookRunner, HookedPod};
use crate::Journal;
use crate::journal::{Entry, Level, LogFormat};
use crate::lock;

/// How long until a hook is tried again that could not be run.
const PAUSE: Duration = Duration::from_secs(1);

/// A pod whose post hooks are owed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another pod of the same name was not stopped.
    pub uid: String,
}

impl OwedPod {
    fn of(pod: &HookedPod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Why it could not be written down what hooks owe.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotWritten(pub String);

/// Why hooks of a pod did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// One of them failed.
    #[error(transparent)]
    Failed(#[from] HookFailure),
    /// It would not be known that they owe others.
    #[error("the hooks are not run, for it cannot be written down that they owe others: {0}")]
    NotWritten(#[source] NotWritten),
    /// The task that ran them is gone.
    #[error(transparent)]
    Lost(#[from] JoinError),
    /// The pod cannot be read.
    #[error(transparent)]
    Pod(#[from] velero_cluster::Error),
    /// The time is over.
    #[error("they did not end in time")]
    Late,
}

type Write = dyn Fn(Vec<OwedPod>) -> BoxFuture<'static, Result<(), NotWritten>> + Send + Sync;

/// The pods of a backup whose post hooks are owed. Clones share them.
#[derive(Clone, Default)]
pub struct OwedHooks {
    write: Option<Arc<Write>>,
    /// One writes at a time, so that what was written last is what is owed.
    writing: Arc<tokio::sync::Mutex<()>>,
    pods: Arc<Mutex<BTreeMap<OwedPod, Debt>>>,
}

#[derive(Clone)]
struct Debt {
    pod: Arc<HookedPod>,
    /// Locked while a hook runs in the pod.
    at_work: Arc<tokio::sync::Mutex<()>>,
}

impl OwedHooks {
    /// Writes down all that is owed with `write`, whenever that changes.
    pub fn written_by(
        write: impl Fn(Vec<OwedPod>) -> BoxFuture<'static, Result<(), NotWritten>> + Send + Sync + 'static,
    ) -> Self {
        Self { write: Some(Arc::new(write)), ..Self::default() }
    }

    /// What is owed now.
    pub fn all(&self) -> Vec<OwedPod> {
        self.pods().keys().cloned().collect()
    }

    /// Runs the pre hooks of a pod, once it is written down that they owe something.
    pub(crate) async fn run_pre(&self, runner: &HookRunner, pod: &Arc<HookedPod>) -> Result<(), HookError> {
        if !owes(pod) {
            return Ok(runner.run(pod, HookPhase::Pre).await.outcome()?);
        }
        let debt = Debt { pod: Arc::clone(pod), at_work: Arc::default() };
        let at_work = Arc::clone(&debt.at_work).lock_owned().await;
        self.pods().insert(OwedPod::of(pod), debt);
        if let Err(problem) = self.write_down().await {
            self.pods().remove(&OwedPod::of(pod));
            return Err(HookError::NotWritten(problem));
        }
        let (runner, pod) = (runner.clone(), Arc::clone(pod));
        let hooks = async move {
            let ran = runner.run(&pod, HookPhase::Pre).await;
            drop(at_work);
            ran.outcome()
        };
        let run = tokio::spawn(hooks.in_current_span());
        Ok(run.await??)
    }

    /// Runs the post hooks of a pod. A failure is in the journal; nothing more can be done about it.
    pub(crate) async fn run_post(&self, runner: &HookRunner, pod: &Arc<HookedPod>) {
        if !self.pods().contains_key(&OwedPod::of(pod)) {
            runner.run(pod, HookPhase::Post).await;
            return;
        }
        self.run_post_if_owed(runner, pod).await;
    }

    /// Runs the post hooks of a pod if its pre hooks owe them.
    pub(crate) async fn run_post_if_owed(&self, runner: &HookRunner, pod: &Arc<HookedPod>) {
        let (owed, runner, key) = (self.clone(), runner.clone(), OwedPod::of(pod));
        let run = tokio::spawn(async move { owed.settle(&runner, &key).await }.in_current_span());
        if let Err(Ok(panic)) = run.await.map_err(JoinError::try_into_panic) {
            resume_unwind(panic);
        }
    }

    /// Runs what is owed, as far as the time allows, and gives what is left. A hook that runs is waited for.
    pub async fn pay(&self, cluster: &Cluster, journal: &Journal, patience: Duration) -> Vec<OwedPod> {
        let runner = HookRunner::new(cluster.clone(), unheard());
        let debts = self.all().into_iter().map(|pod| {
            let runner = runner.clone();
            async move {
                let paid = until(patience, || self.settle(&runner, &pod)).await;
                tell(journal, &pod, &paid);
            }
        });
        join_all(debts).await;
        self.all()
    }

    /// Runs the post hooks of a pod and strikes it off; gives those that failed. A pod in which one could not be run at
    /// all stays.
    async fn settle(&self, runner: &HookRunner, pod: &OwedPod) -> Result<Vec<HookFailure>, HookError> {
        let Some(debt) = self.pods().get(pod).cloned() else { return Ok(Vec::new()) };
        let _at_work = debt.at_work.lock().await;
        // Whoever was at work until now may have paid.
        if !self.pods().contains_key(pod) {
            return Ok(Vec::new());
        }
        let ran = runner.run(&debt.pod, HookPhase::Post).await;
        if let Some(failure) = ran.unreached() {
            return Err(failure.into());
        }
        self.pods().remove(pod);
        if let Err(problem) = self.write_down().await {
            // The worst that follows is that the hooks run once more.
            tracing::warn!(%problem, "It could not be written down that hooks are paid");
        }
        Ok(ran.failures)
    }

    async fn write_down(&self) -> Result<(), NotWritten> {
        let Some(write) = &self.write else { return Ok(()) };
        let _one_at_a_time = self.writing.lock().await;
        write(self.all()).await
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<OwedPod, Debt>> {
        lock(&self.pods)
    }
}

/// Whether the pre hooks of a pod owe anything: one of them can run, and there is something to run after it.
fn owes(pod: &HookedPod) -> bool {
    let runs = |hook: &velero_rules::hooks::PodHook| hook.refusal.is_none();
    !pod.has_ended && pod.pre.hooks.iter().any(runs) && pod.post.hooks.iter().any(runs)
}

/// Tries until the hooks of a pod have run, or the time is over.
async fn until<T, F: Future<Output = Result<T, HookError>>>(
    patience: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, HookError> {
    let deadline = Instant::now() + patience;
    loop {
        let problem = match tokio::time::timeout_at(deadline, attempt()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(problem)) => problem,
            Err(_) => HookError::Late,
        };
        if Instant::now() + PAUSE > deadline {
            return Err(problem);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn tell(journal: &Journal, pod: &OwedPod, paid: &Result<Vec<HookFailure>, HookError>) {
    let about = |entry: Entry<'_>, reason: &dyn Display, message: &str| {
        entry.item(ItemRef::new(PODS, Some(&pod.namespace), &pod.name)).error(reason).message(message);
    };
    match paid {
        Ok(failures) if failures.is_empty() => {
            let entry = journal.info().item(ItemRef::new(PODS, Some(&pod.namespace), &pod.name));
            entry.message("Hooks that were owed have run");
        }
        Ok(failures) => {
            for failure in failures {
                about(journal.error(), failure, "Error executing hook");
            }
        }
        Err(problem) => {
            about(
                journal.error(),
                problem,
                "Hooks that are owed could not be run; what others stopped may stand still",
            );
        }
    }
}

/// For what is told once it is known how it ended.
fn unheard() -> Journal {
    Journal::for_backup("", "", LogFormat::Text, Level::Error)
}

/// Runs the post hooks that a server left owed, as they follow from the pods and the hooks of the backup, as far as the
/// time allows; gives what is left. A pod that is gone is owed nothing.
pub async fn run_owed_hooks(
    cluster: &Cluster,
    hooks: &BackupHooks,
    owed: &[OwedPod],
    journal: &Journal,
    patience: Duration,
) -> Vec<OwedPod> {
    let only_pods = |name: &str| matches!(name, "pods" | "pod" | "po").then(|| PODS.to_owned());
    // Hooks that cannot be read did not run.
    let Ok(rules) = HookRules::new(hooks, only_pods) else { return Vec::new() };
    let rules = &rules;
    let runs = owed.iter().map(|pod| async move {
        let paid = until(patience, || run_owed(cluster, rules, pod)).await;
        tell(journal, pod, &paid);
        paid.is_err().then(|| pod.clone())
    });
    join_all(runs).await.into_iter().flatten().collect()
}

async fn run_owed(cluster: &Cluster, rules: &HookRules, owed: &OwedPod) -> Result<Vec<HookFailure>, HookError> {
    let found = cluster.get_raw(types::PODS.item(Some(&owed.namespace), &owed.name)).await?;
    let pod = found.and_then(|raw| HookedPod::new(rules, &raw, None)).filter(|pod| pod.uid == owed.uid);
    let Some(pod) = pod else { return Ok(Vec::new()) };
    let ran = HookRunner::new(cluster.clone(), unheard()).run(&pod, HookPhase::Post).await;
    ran.unreached().map_or(Ok(ran.failures), |failure| Err(failure.into()))
}
