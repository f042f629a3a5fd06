//! Commands in pods, before and after they are stored.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use velero_api::GoDuration;
use velero_api::v1::HookStatus;
use velero_cluster::{Cluster, Error, ExecOutput, ExecReason, ExecRequest, RawItem};
use velero_rules::hooks::{HookPhase, HookRules, HookSource, PodHook, PodHooks, has_ended};

use crate::Journal;
use crate::journal::Entry;

/// A pod with its hooks, all that is needed to run them later.
pub(crate) struct HookedPod {
    namespace: String,
    name: String,
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
            has_ended: has_ended(pod),
            pre,
            post,
        })
    }
}

/// Runs hooks and counts them.
pub(crate) struct HookRunner {
    cluster: Cluster,
    journal: Journal,
    attempted: AtomicI64,
    failed: AtomicI64,
}

impl HookRunner {
    pub(crate) fn new(cluster: Cluster, journal: Journal) -> Self {
        Self { cluster, journal, attempted: AtomicI64::new(0), failed: AtomicI64::new(0) }
    }

    /// How the hooks went so far.
    pub(crate) fn status(&self) -> HookStatus {
        HookStatus {
            hooks_attempted: self.attempted.load(Ordering::Relaxed),
            hooks_failed: self.failed.load(Ordering::Relaxed),
            ..HookStatus::default()
        }
    }

    /// Runs the hooks of a pod one after the other. Every failure is recorded; only one whose hook says so ends the
    /// row and is given back. Hooks after it count as attempted.
    pub(crate) async fn run(&self, pod: &HookedPod, phase: HookPhase) -> Result<(), String> {
        let chosen = if phase == HookPhase::Pre { &pod.pre } else { &pod.post };
        for warning in &chosen.warnings {
            self.entry_about(pod, self.journal.warning()).message(warning);
        }
        let mut outcome = Ok(());
        for hook in &chosen.hooks {
            self.attempted.fetch_add(1, Ordering::Relaxed);
            if outcome.is_err() {
                continue;
            }
            let Err(error) = self.run_one(pod, hook).await else {
                continue;
            };
            self.failed.fetch_add(1, Ordering::Relaxed);
            let entry = self.entry_about(pod, self.journal.error()).field("hookSource", source_text(hook.source));
            let entry = entry.field("hookType", "exec").field("hookPhase", phase_text(phase));
            entry.field("hookName", hook.name.as_str()).error(&error).message("Error executing hook");
            if hook.stops_on_failure() {
                outcome = Err(error);
            }
        }
        outcome
    }

    async fn run_one(&self, pod: &HookedPod, hook: &PodHook) -> Result<(), String> {
        if let Some(refusal) = &hook.refusal {
            return Err(refusal.to_string());
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
        entry.object("pods", Some(&pod.namespace), &pod.name)
    }
}

/// Runs a command in a pod; gives what it wrote, and why it failed if it did.
pub(crate) async fn execute(cluster: &Cluster, request: &ExecRequest) -> (ExecOutput, Result<(), String>) {
    match cluster.exec(request).await {
        Ok(output) => (output, Ok(())),
        Err(Error::Exec(failure)) => {
            let reason = match failure.reason {
                ExecReason::TimedOut(limit) => format!("timed out after {}", GoDuration::from(limit)),
                ExecReason::ExitCode(code) => format!("command terminated with exit code {code}"),
                ExecReason::Failed(_) => failure.to_string(),
            };
            (failure.output, Err(reason))
        }
        Err(error) => (ExecOutput::default(), Err(error.to_string())),
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
