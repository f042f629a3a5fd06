//! The commands a backup runs in a pod before and after it is stored.
//!
//! A hook in the annotations of a pod replaces all hooks of the backup spec for that phase.

use std::collections::BTreeMap;

use serde_json::Value;
use velero_api::GoDuration;
use velero_api::annotations::backup_hook;
use velero_api::type_names::PODS;
use velero_api::v1::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, ExecHook, HookErrorMode};

use crate::includes_excludes::IncludesExcludes;
use crate::selector::{Selector, SelectorError};

pub(crate) const FROM_ANNOTATION: &str = "<from-annotation>";
pub(crate) const DEFAULT_TIMEOUT: GoDuration = GoDuration::from_secs(30);

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPhase {
    /// Before the pod is stored.
    Pre,
    /// After the pod and its volumes are stored.
    Post,
}

/// Where a hook comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookSource {
    /// The annotations of the pod.
    Annotation,
    /// The spec of the backup.
    Spec,
}

/// Why a hook cannot run in a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// The pod has no container.
    #[error("need at least 1 container")]
    NoContainer,
    /// The pod has no such container.
    #[error("no such container: {container:?}")]
    NoSuchContainer {
        /// The name given.
        container: String,
    },
    /// There is nothing to run.
    #[error("command is required")]
    NoCommand,
}

/// A hook to run in one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodHook {
    /// Where it comes from.
    pub source: HookSource,
    /// Its name in the spec, or `<from-annotation>`.
    pub name: String,
    /// Its place among the hooks of that name.
    pub index: usize,
    /// The container it runs in.
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What a failure means. Only `Fail` keeps the pod out of the backup; unset goes on.
    pub on_error: Option<HookErrorMode>,
    /// How long it may run; negative means without limit.
    pub timeout: GoDuration,
    /// Why it cannot run, which counts as a failure.
    pub refusal: Option<HookError>,
}

impl PodHook {
    /// Says whether a failure keeps the pod out of the backup and stops its remaining hooks.
    pub fn stops_on_failure(&self) -> bool {
        self.on_error == Some(HookErrorMode::Fail)
    }

    fn new(pod: &Value, source: HookSource, name: &str, index: usize, hook: &ExecHook) -> Self {
        let containers = names_of(&pod["spec"]["containers"], |_| true);
        let container = match (hook.container.as_str(), containers.first()) {
            ("", Some(first)) => (*first).to_owned(),
            (named, _) => named.to_owned(),
        };
        Self {
            source,
            name: name.to_owned(),
            index,
            refusal: refusal(pod, &containers, &container, &hook.command),
            container,
            command: hook.command.clone(),
            on_error: hook.on_error.clone(),
            timeout: hook.timeout.or(DEFAULT_TIMEOUT),
        }
    }
}

fn refusal(pod: &Value, containers: &[&str], container: &str, command: &[String]) -> Option<HookError> {
    // An init container that restarts always runs beside the others.
    let sidecars = names_of(&pod["spec"]["initContainers"], |init| init["restartPolicy"] == "Always");
    if container.is_empty() {
        return Some(HookError::NoContainer);
    }
    if !containers.contains(&container) && !sidecars.contains(&container) {
        return Some(HookError::NoSuchContainer { container: container.to_owned() });
    }
    command.is_empty().then_some(HookError::NoCommand)
}

pub(crate) fn names_of(containers: &Value, is_target: impl Fn(&Value) -> bool) -> Vec<&str> {
    let targets = containers.as_array().into_iter().flatten().filter(|container| is_target(container));
    targets.filter_map(|container| container["name"].as_str()).collect()
}

/// Says whether a pod has ended, so that its hooks are passed over without failure.
pub fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Which pods the hooks of a spec are for.
#[derive(Debug, Clone)]
pub(crate) struct HookSelector {
    pub(crate) namespaces: IncludesExcludes,
    pub(crate) resources: IncludesExcludes,
    pub(crate) labels: Selector,
}

#[derive(Debug, Clone)]
struct HookRule {
    name: String,
    pods: HookSelector,
    pre: Vec<BackupResourceHook>,
    post: Vec<BackupResourceHook>,
}

/// The hooks of a backup spec, ready to be asked about pods.
#[derive(Debug, Clone, Default)]
pub struct HookRules {
    rules: Vec<HookRule>,
}

/// The hooks of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodHooks {
    /// In the order they run.
    pub hooks: Vec<PodHook>,
    /// What could not be read and was replaced by a default.
    pub warnings: Vec<String>,
}

impl HookRules {
    /// Reads the hooks of a backup spec. `resolve` turns a resource name into `plural.group`.
    pub fn new(spec: &BackupHooks, resolve: impl Fn(&str) -> Option<String>) -> Result<Self, SelectorError> {
        let rule = |hooks: &BackupResourceHookSpec| {
            Ok(HookRule {
                name: hooks.name.clone(),
                pods: HookSelector {
                    namespaces: IncludesExcludes::new(&hooks.included_namespaces, &hooks.excluded_namespaces),
                    resources: IncludesExcludes::of_resources(
                        &hooks.included_resources,
                        &hooks.excluded_resources,
                        &resolve,
                    ),
                    labels: hooks.label_selector.as_ref().map(Selector::try_from).transpose()?.unwrap_or_default(),
                },
                pre: hooks.pre_hooks.clone(),
                post: hooks.post_hooks.clone(),
            })
        };
        Ok(Self { rules: spec.resources.iter().map(rule).collect::<Result<_, _>>()? })
    }

    /// Gives the hooks of a pod for a phase.
    pub fn for_pod(&self, pod: &Value, phase: HookPhase) -> PodHooks {
        let annotations = text_map(&pod["metadata"]["annotations"]);
        if let Some((hook, warnings)) = hook_of_annotations(&annotations, phase) {
            let hooks = vec![PodHook::new(pod, HookSource::Annotation, FROM_ANNOTATION, 0, &hook)];
            return PodHooks { hooks, warnings };
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let labels = text_map(&pod["metadata"]["labels"]);
        let applicable = self.rules.iter().filter(|rule| rule.pods.selects(namespace, &labels));
        let hooks = applicable.flat_map(|rule| {
            let hooks = if phase == HookPhase::Pre { &rule.pre } else { &rule.post };
            let of_rule = hooks.iter().enumerate();
            of_rule.map(|(index, hook)| PodHook::new(pod, HookSource::Spec, &rule.name, index, &hook.exec))
        });
        PodHooks { hooks: hooks.collect(), warnings: Vec::new() }
    }
}

impl HookSelector {
    pub(crate) fn selects(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.should_include(namespace) && self.resources.should_include(PODS) && self.labels.matches(labels)
    }
}

pub(crate) fn text_map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Annotations without a phase are an older form of the pre hook.
fn hook_of_annotations(annotations: &BTreeMap<String, String>, phase: HookPhase) -> Option<(ExecHook, Vec<String>)> {
    match phase {
        HookPhase::Pre => hook_with_prefix(annotations, "pre.").or_else(|| hook_with_prefix(annotations, "")),
        HookPhase::Post => hook_with_prefix(annotations, "post."),
    }
}

fn hook_with_prefix(annotations: &BTreeMap<String, String>, prefix: &str) -> Option<(ExecHook, Vec<String>)> {
    let get = |key: &str| annotations.get(&format!("{prefix}{key}")).map_or("", String::as_str);
    let command = get(backup_hook::COMMAND);
    if command.is_empty() {
        return None;
    }
    let mut warnings = Vec::new();
    let timeout = match get(backup_hook::TIMEOUT) {
        "" => GoDuration::ZERO,
        text => text.parse().unwrap_or_else(|error| {
            warnings.push(format!("Unable to parse provided timeout {text}, using default: {error}"));
            GoDuration::ZERO
        }),
    };
    let hook = ExecHook {
        container: get(backup_hook::CONTAINER).to_owned(),
        command: parse_command(command),
        on_error: get(backup_hook::ON_ERROR).parse().ok(),
        timeout,
        ..Default::default()
    };
    Some((hook, warnings))
}

/// Reads a command written as a JSON list; anything else is one program without arguments.
pub fn parse_command(text: &str) -> Vec<String> {
    let list = text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten();
    list.unwrap_or_else(|| vec![text.to_owned()])
}

#[cfg(test)]
mod tests;
