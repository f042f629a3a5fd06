//! What a restore runs in a pod it brings back: init containers before it starts, commands once it runs.
//!
//! A hook in the annotations of a pod replaces all hooks of the restore spec of that kind.

mod init;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use velero_api::GoDuration;
use velero_api::annotations::restore_exec_hook;
use velero_api::v1::{ExecRestoreHook, HookErrorMode, RestoreHooks, RestoreResourceHook, RestoreResourceHookSpec};

pub use init::{InvalidInitContainer, insert_init_containers, validate_init_container};

use crate::hooks::{DEFAULT_TIMEOUT, FROM_ANNOTATION, HookSelector, HookSource, names_of, parse_command, text_map};
use crate::includes_excludes::IncludesExcludes;
use crate::selector::{Selector, SelectorError};

#[derive(Debug, Clone)]
struct RestoreHookRule {
    name: String,
    pods: HookSelector,
    hooks: Vec<RestoreResourceHook>,
}

/// The hooks of a restore spec, ready to be asked about pods.
#[derive(Debug, Clone, Default)]
pub struct RestoreHookRules {
    rules: Vec<RestoreHookRule>,
}

/// A command to run in one restored pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRestoreHook {
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
    /// What a failure means. Only `Fail` stops the remaining hooks of the pod; unset goes on.
    pub on_error: Option<HookErrorMode>,
    /// How long it may run; negative means without limit.
    pub exec_timeout: GoDuration,
    /// How long to wait for its container; zero or less means for ever.
    pub wait_timeout: GoDuration,
    /// Whether the container must be ready, not only running.
    pub wait_for_ready: bool,
}

/// The hooks of one container, in the order they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerHooks {
    /// The container.
    pub container: String,
    /// Its hooks.
    pub hooks: Vec<PodRestoreHook>,
}

/// The hooks of one restored pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRestoreHooks {
    /// By container, in the order in which the containers are named first.
    pub containers: Vec<ContainerHooks>,
    /// What could not be read or has no container to run in.
    pub warnings: Vec<String>,
}

impl PodRestoreHook {
    /// Says whether a failure stops the remaining hooks of the pod.
    pub fn stops_on_failure(&self) -> bool {
        self.on_error == Some(HookErrorMode::Fail)
    }

    /// How long to wait for its container; none means for ever.
    pub fn longest_wait(&self) -> Option<Duration> {
        (self.wait_timeout > GoDuration::ZERO).then(|| self.wait_timeout.to_std())
    }

    fn new(source: HookSource, name: &str, index: usize, hook: &ExecRestoreHook, first_container: &str) -> Self {
        let container = if hook.container.is_empty() { first_container } else { &hook.container };
        Self {
            source,
            name: name.to_owned(),
            index,
            container: container.to_owned(),
            command: hook.command.clone(),
            on_error: hook.on_error.clone(),
            exec_timeout: hook.exec_timeout.or(DEFAULT_TIMEOUT),
            wait_timeout: hook.wait_timeout,
            wait_for_ready: hook.wait_for_ready.unwrap_or(false),
        }
    }
}

impl ContainerHooks {
    /// Says whether the container is up in the pod as it is now, so that its hooks can run.
    pub fn is_up(&self, pod: &Value) -> bool {
        let must_be_ready = self.hooks.iter().any(|hook| hook.wait_for_ready);
        let mut statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        statuses.find(|status| status["name"] == self.container.as_str()).is_some_and(|status| match must_be_ready {
            true => status["ready"] == true,
            false => status["state"]["running"].is_object(),
        })
    }
}

impl PodRestoreHooks {
    /// Says whether nothing is to be run.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// How long to wait for containers; none means for ever, as soon as one hook says so.
    pub fn longest_wait(&self) -> Option<Duration> {
        let hooks = self.containers.iter().flat_map(|container| &container.hooks);
        hooks.map(PodRestoreHook::longest_wait).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn push(&mut self, hook: PodRestoreHook) {
        match self.containers.iter_mut().find(|group| group.container == hook.container) {
            Some(group) => group.hooks.push(hook),
            None => self.containers.push(ContainerHooks { container: hook.container.clone(), hooks: vec![hook] }),
        }
    }

    /// A container that does not exist would be waited for without end.
    fn drop_absent_containers(&mut self, pod: &Value, existing: &[&str]) {
        let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let warnings = &mut self.warnings;
        self.containers.retain(|group| {
            let exists = existing.contains(&group.container.as_str());
            if !exists {
                let container = &group.container;
                warnings.push(format!(
                    "Pod {namespace}/{name} does not have container {container}: discarding post-restore exec hooks"
                ));
            }
            exists
        });
    }
}

impl RestoreHookRules {
    /// Reads the hooks of a restore spec. `resolve` turns a resource name into `plural.group`.
    pub fn new(spec: &RestoreHooks, resolve: impl Fn(&str) -> Option<String>) -> Result<Self, SelectorError> {
        let rule = |group: &RestoreResourceHookSpec| {
            let labels = group.label_selector.as_ref().map(Selector::try_from).transpose()?.unwrap_or_default();
            let namespaces = IncludesExcludes::new(&group.included_namespaces, &group.excluded_namespaces);
            let (included, excluded) = (&group.included_resources, &group.excluded_resources);
            let resources = IncludesExcludes::of_resources(included, excluded, &resolve);
            Ok(RestoreHookRule {
                name: group.name.clone(),
                pods: HookSelector { namespaces, resources, labels },
                hooks: group.post_hooks.clone(),
            })
        };
        Ok(Self { rules: spec.resources.iter().map(rule).collect::<Result<_, _>>()? })
    }

    /// Gives the init containers to add to a pod, which is to be restored into `target_namespace`.
    pub fn init_containers(&self, pod: &Value, target_namespace: &str) -> Result<Vec<Value>, InvalidInitContainer> {
        if let Some(container) = init::container_of_annotations(pod) {
            return Ok(vec![container]);
        }
        let hooks = self.for_pod(pod, target_namespace).flat_map(|rule| &rule.hooks);
        let containers = hooks.filter_map(|hook| hook.init.as_ref()).flat_map(|init| &init.init_containers);
        containers.map(|container| validate_init_container(container).map(|()| container.clone())).collect()
    }

    /// Gives the commands to run in a restored pod, which is in its target namespace already.
    pub fn exec_hooks(&self, pod: &Value) -> PodRestoreHooks {
        let existing = names_of(&pod["spec"]["containers"], |_| true);
        let Some(first) = existing.first() else { return PodRestoreHooks::default() };
        let mut found = PodRestoreHooks::default();
        let annotations = text_map(&pod["metadata"]["annotations"]);
        if let Some(hook) = hook_of_annotations(&annotations, &mut found.warnings) {
            found.push(PodRestoreHook::new(HookSource::Annotation, FROM_ANNOTATION, 0, &hook, first));
        } else {
            for rule in self.for_pod(pod, text(&pod["metadata"]["namespace"])) {
                for (index, hook) in rule.hooks.iter().enumerate() {
                    let Some(exec) = &hook.exec else { continue };
                    found.push(PodRestoreHook::new(HookSource::Spec, &rule.name, index, exec, first));
                }
            }
        }
        found.drop_absent_containers(pod, &existing);
        found
    }

    /// Says whether any hook is for a pod, which is to be restored into `namespace`.
    pub fn select(&self, pod: &Value, namespace: &str) -> bool {
        self.for_pod(pod, namespace).any(|rule| !rule.hooks.is_empty())
    }

    fn for_pod<'a>(&'a self, pod: &Value, namespace: &'a str) -> impl Iterator<Item = &'a RestoreHookRule> {
        let labels = text_map(&pod["metadata"]["labels"]);
        self.rules.iter().filter(move |rule| rule.pods.selects(namespace, &labels))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn hook_of_annotations(annotations: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> Option<ExecRestoreHook> {
    let get = |key: &str| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let command = parse_command(get(restore_exec_hook::COMMAND)?);
    let mut duration = |key: &str, what: &str| {
        let Some(text) = get(key) else { return GoDuration::ZERO };
        text.parse().unwrap_or_else(|error| {
            warnings.push(format!("Unable to parse {what} {text}, ignoring: {error}"));
            GoDuration::ZERO
        })
    };
    let exec_timeout = duration(restore_exec_hook::EXEC_TIMEOUT, "exec timeout");
    let wait_timeout = duration(restore_exec_hook::WAIT_TIMEOUT, "wait timeout");
    let wait_for_ready = get(restore_exec_hook::WAIT_FOR_READY).map(|text| {
        parse_bool(text).unwrap_or_else(|| {
            warnings.push(format!("Unable to parse wait for ready {text}, ignoring: use true or false"));
            false
        })
    });
    Some(ExecRestoreHook {
        container: get(restore_exec_hook::CONTAINER).unwrap_or_default().to_owned(),
        command,
        on_error: get(restore_exec_hook::ON_ERROR).and_then(|mode| mode.parse().ok()),
        exec_timeout,
        wait_timeout,
        wait_for_ready,
        ..Default::default()
    })
}

/// Reads the spellings that Go takes for a boolean.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
