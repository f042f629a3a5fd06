//! Commands in pods, before and after they are stored.

mod owed;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use velero_api::GoDuration;
use velero_api::v1::HookStatus;
use velero_cluster::{Cluster, Error, ExecOutput, ExecReason, ExecRequest, ItemRef, RawItem};
use velero_rules::hooks::{HookPhase, HookRules, HookSource, PodHook, PodHooks, has_ended};

pub use owed::{NotWritten, OwedHooks, OwedPod, run_owed_hooks};

use crate::Journal;
use crate::detail;
use crate::journal::Entry;
use crate::stage::try_within;

/// A pod with its hooks, all that is needed to run them later.
pub(crate) struct HookedPod {
    namespace: String,
    name: String,
    uid: String,
    has_ended: bool,
    pre: PodHooks,
    post: PodHooks,
}

impl HookedPod {
    /// Chooses the hooks of a pod; `None` when it has none or cannot be read.
    pub(crate) fn new(rules: &HookRules, raw: &RawItem, value: Option<&Value>) -> Option<Self> {
        let parsed = match value {
            Some(_) => None,
            None => Some(raw.to_value().ok()?),
        };
        let pod = value.or(parsed.as_ref())?;
        let (pre, post) = (rules.for_pod(pod, HookPhase::Pre), rules.for_pod(pod, HookPhase::Post));
        let any = !pre.hooks.is_empty() || !post.hooks.is_empty();
        any.then(|| Self {
            namespace: raw.namespace().unwrap_or_default().to_owned(),
            name: raw.name().to_owned(),
            uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            has_ended: has_ended(pod),
            pre,
            post,
        })
    }
}

/// Why a hook failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct HookFailure {
    pub(crate) reason: String,
    /// Whether its command was not run to an end, so that another try may help.
    may_pass: bool,
}

impl HookFailure {
    /// One that stays a failure.
    pub(crate) fn lasting(reason: String) -> Self {
        Self { reason, may_pass: false }
    }
}

/// How the hooks of a pod went.
#[derive(Default)]
struct Ran {
    failures: Vec<HookFailure>,
    /// Whether the last failure is final for its pod.
    is_final: bool,
}

impl Ran {
    fn outcome(mut self) -> Result<(), HookFailure> {
        match self.failures.pop() {
            Some(failure) if self.is_final => Err(failure),
            _ => Ok(()),
        }
    }

    /// Why a command was not run to an end, if one was not.
    fn unreached(&self) -> Option<HookFailure> {
        self.failures.iter().find(|failure| failure.may_pass).cloned()
    }
}

/// Runs hooks and counts them. Clones share the counts.
#[derive(Clone)]
pub(crate) struct HookRunner {
    cluster: Cluster,
    journal: Journal,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    attempted: AtomicI64,
    failed: AtomicI64,
}

impl HookRunner {
    pub(crate) fn new(cluster: Cluster, journal: Journal) -> Self {
        Self { cluster, journal, counts: Arc::default() }
    }

    /// How the hooks went so far.
    pub(crate) fn status(&self) -> HookStatus {
        HookStatus {
            hooks_attempted: self.counts.attempted.load(Ordering::Relaxed),
            hooks_failed: self.counts.failed.load(Ordering::Relaxed),
            ..HookStatus::default()
        }
    }

    /// Runs the hooks of a pod one after the other. Every failure is recorded; only one whose hook says so ends the
    /// row. Hooks after it count as attempted.
    async fn run(&self, pod: &HookedPod, phase: HookPhase) -> Ran {
        let chosen = if phase == HookPhase::Pre { &pod.pre } else { &pod.post };
        for warning in &chosen.warnings {
            self.entry_about(pod, self.journal.warning()).message(warning);
        }
        let mut ran = Ran::default();
        for hook in &chosen.hooks {
            self.counts.attempted.fetch_add(1, Ordering::Relaxed);
            if ran.is_final {
                continue;
            }
            let stage = detail!(
                "hook",
                velero.hook = hook.name,
                velero.hook_phase = phase_text(phase),
                velero.pod = format!("{}/{}", pod.namespace, pod.name),
                velero.container = hook.container,
            );
            let Err(failure) = try_within(stage, self.run_one(pod, hook)).await else {
                continue;
            };
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            let entry = self.entry_about(pod, self.journal.error()).field("hookSource", source_text(hook.source));
            let entry = entry.field("hookType", "exec").field("hookPhase", phase_text(phase));
            entry.field("hookName", hook.name.as_str()).error(&failure.reason).message("Error executing hook");
            ran.is_final = hook.stops_on_failure();
            ran.failures.push(failure);
        }
        ran
    }

    async fn run_one(&self, pod: &HookedPod, hook: &PodHook) -> Result<(), HookFailure> {
        if let Some(refusal) = &hook.refusal {
            return Err(HookFailure::lasting(refusal.to_string()));
        }
        let about = || {
            let entry = self.entry_about(pod, self.journal.info()).field("hookName", hook.name.as_str());
            entry.field("hookContainer", hook.container.as_str())
        };
        if pod.has_ended {
            about().message("Pod has ended, its hooks are passed over");
            return Ok(());
        }
        about().field("hookCommand", format!("{:?}", hook.command)).message("running exec hook");
        let request = ExecRequest {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: Some(hook.container.clone()),
            command: hook.command.clone(),
            timeout: (hook.timeout > GoDuration::ZERO).then(|| hook.timeout.to_std()),
        };
        let (output, outcome) = execute(&self.cluster, &request).await;
        about().message(&format!("stdout: {}", output.stdout));
        about().message(&format!("stderr: {}", output.stderr));
        outcome
    }

    fn entry_about<'e>(&self, pod: &'e HookedPod, entry: Entry<'e>) -> Entry<'e> {
        entry.item(ItemRef::new("pods", Some(&pod.namespace), &pod.name))
    }
}

/// Runs a command in a pod; gives what it wrote, and why it failed if it did.
pub(crate) async fn execute(cluster: &Cluster, request: &ExecRequest) -> (ExecOutput, Result<(), HookFailure>) {
    match cluster.exec(request).await {
        Ok(output) => (output, Ok(())),
        Err(Error::Exec(failure)) => {
            let (reason, may_pass) = match failure.reason {
                ExecReason::TimedOut(limit) => (format!("timed out after {}", GoDuration::from(limit)), false),
                ExecReason::ExitCode(code) => (format!("command terminated with exit code {code}"), false),
                ExecReason::Failed(_) => (failure.to_string(), true),
            };
            (failure.output, Err(HookFailure { reason, may_pass }))
        }
        Err(error) => (ExecOutput::default(), Err(HookFailure { reason: error.to_string(), may_pass: true })),
    }
}

fn source_text(source: HookSource) -> &'static str {
    match source {
        HookSource::Annotation => "annotation",
        HookSource::Spec => "backupSpec",
    }
}

fn phase_text(phase: HookPhase) -> &'static str {
    match phase {
        HookPhase::Pre => "pre",
        HookPhase::Post => "post",
    }
}
