//! Commands in restored pods, run once their containers are up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use velero_api::GoDuration;
use velero_api::v1::HookStatus;
use velero_cluster::{Cluster, Error, ExecRequest, ItemRef, types};
use velero_rules::hooks::has_ended;
use velero_rules::restore_hooks::{ContainerHooks, PodRestoreHook, PodRestoreHooks};

use crate::Journal;
use crate::hooks::{HookFailure, execute};
use crate::journal::Entry;

/// A hook that asks to wait for ever waits this long.
const LONGEST_WAIT: Duration = Duration::from_secs(4 * 3600);

/// Why no container of a pod is up.
#[derive(Debug, thiserror::Error)]
enum NotUp {
    #[error("the pod has ended before its container was up")]
    Ended,
    #[error("the pod was deleted before its hooks were run")]
    Deleted,
    #[error("its container was not up within {0:?}")]
    Late(Duration),
    #[error(transparent)]
    Unknown(Error),
}

/// A pod whose hooks are due.
pub(super) struct RestoredPod {
    cluster: Cluster,
    journal: Journal,
    namespace: String,
    name: String,
    created: Instant,
}

impl RestoredPod {
    pub(super) fn new(cluster: Cluster, journal: Journal, namespace: &str, name: &str) -> Self {
        Self { cluster, journal, namespace: namespace.to_owned(), name: name.to_owned(), created: Instant::now() }
    }

    /// Waits for the containers of the pod and runs the hooks of each once it is up.
    pub(super) async fn run_hooks(self: Arc<Self>, chosen: PodRestoreHooks) -> HookStatus {
        let longest = chosen.longest_wait().unwrap_or(LONGEST_WAIT);
        let attempted = chosen.containers.iter().map(|container| container.hooks.len()).sum::<usize>();
        let mut status =
            HookStatus { hooks_attempted: i64::try_from(attempted).unwrap_or_default(), ..HookStatus::default() };
        let mut waiting = chosen.containers;
        while !waiting.is_empty() {
            let time_left = longest.saturating_sub(self.created.elapsed());
            let pod = match self.wait_for_any(&waiting, time_left).await {
                Ok(pod) => pod,
                Err(reason) => {
                    status.hooks_failed += self.fail_all(&waiting, &reason.to_string());
                    break;
                }
            };
            let (up, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|container| container.is_up(&pod));
            waiting = rest;
            for (position, container) in up.iter().enumerate() {
                let (failed, stop) = self.run_container(container).await;
                status.hooks_failed += failed;
                if stop {
                    let reason = "a hook before it failed and its onError says to stop";
                    self.note_left_out(&up[position + 1..], reason);
                    self.note_left_out(&waiting, reason);
                    return status;
                }
            }
        }
        status
    }

    async fn wait_for_any(&self, waiting: &[ContainerHooks], timeout: Duration) -> Result<Value, NotUp> {
        let is_news = |pod: Option<&Value>| match pod {
            None => true,
            Some(pod) => has_ended(pod) || waiting.iter().any(|container| container.is_up(pod)),
        };
        let pod = self.cluster.wait_until(types::PODS.item(Some(&self.namespace), &self.name), timeout, is_news).await;
        match pod {
            Ok(Some(pod)) if waiting.iter().any(|container| container.is_up(&pod)) => Ok(pod),
            Ok(Some(_)) => Err(NotUp::Ended),
            Ok(None) => Err(NotUp::Deleted),
            Err(Error::TimedOut { .. }) => Err(NotUp::Late(timeout)),
            Err(error) => Err(NotUp::Unknown(error)),
        }
    }

    /// Runs the hooks of a container that is up; how many failed, and whether the rest of the pod's hooks is off.
    async fn run_container(&self, container: &ContainerHooks) -> (i64, bool) {
        let mut failed = 0;
        for (position, hook) in container.hooks.iter().enumerate() {
            let late = hook.longest_wait().is_some_and(|longest| self.created.elapsed() > longest);
            let outcome = match late {
                true => Err(HookFailure::lasting(format!("its container was not up within {}", hook.wait_timeout))),
                false => Ok(()),
            };
            // A hook that is late has failed, but it is still run unless failure is final.
            let outcome = match outcome {
                Err(failure) if hook.stops_on_failure() => Err(failure),
                late => self.run_one(hook).await.and(late),
            };
            if let Err(failure) = outcome {
                failed += 1;
                self.fail(hook, &failure.reason);
                if hook.stops_on_failure() {
                    for left in &container.hooks[position + 1..] {
                        self.about(left, self.journal.info()).message("Hook is not run: a hook before it failed");
                    }
                    return (failed, true);
                }
            }
        }
        (failed, false)
    }

    async fn run_one(&self, hook: &PodRestoreHook) -> Result<(), HookFailure> {
        let request = ExecRequest {
            namespace: self.namespace.clone(),
            pod: self.name.clone(),
            container: Some(hook.container.clone()),
            command: hook.command.clone(),
            timeout: (hook.exec_timeout > GoDuration::ZERO).then(|| hook.exec_timeout.to_std()),
        };
        let about = || self.about(hook, self.journal.info());
        about().field("hookCommand", format!("{:?}", hook.command)).message("running exec hook");
        let (output, outcome) = execute(&self.cluster, &request).await;
        about().message(&format!("stdout: {}", output.stdout));
        about().message(&format!("stderr: {}", output.stderr));
        outcome
    }

    fn fail_all(&self, containers: &[ContainerHooks], reason: &str) -> i64 {
        let hooks: Vec<_> = containers.iter().flat_map(|container| &container.hooks).collect();
        hooks.iter().for_each(|hook| self.fail(hook, reason));
        i64::try_from(hooks.len()).unwrap_or_default()
    }

    fn note_left_out(&self, containers: &[ContainerHooks], reason: &str) {
        for hook in containers.iter().flat_map(|container| &container.hooks) {
            self.about(hook, self.journal.info()).message(&format!("Hook is not run: {reason}"));
        }
    }

    fn fail(&self, hook: &PodRestoreHook, reason: &str) {
        let message = format!(
            "hook {} in container {} of pod {}/{} failed: {reason}",
            hook.name, hook.container, self.namespace, self.name
        );
        self.about(hook, self.journal.error()).message(&message);
    }

    fn about<'e>(&'e self, hook: &'e PodRestoreHook, entry: Entry<'e>) -> Entry<'e> {
        let entry = entry.item(ItemRef::new("pods", Some(&self.namespace), &self.name));
        entry.field("hookName", hook.name.as_str()).field("hookContainer", hook.container.as_str())
    }
}
