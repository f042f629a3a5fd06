//! Pods that something makes again stay out, unless their data or hooks are wanted. The others run images of the internal
//! registry with pull secrets of this cluster, and do without what would make them again.

mod stage;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::metadata;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, describe, elements, elements_mut, label, remove, remove_label, set_label, text};
use velero_plugin::{Error, RestoreItemInput, RestoreItemOutcome, Result};

use super::build_config::secrets_namespace;
use super::deployment_config::takes_all;
use crate::action::{Resources, RestoreStep};
use crate::compat::Compat;
use crate::context::Context;
use crate::lookups::pull_secrets::{DEFAULT_PREFIX, PullSecrets, prefix_of};
use crate::names::{annotations, labels};
use crate::settings::Settings;
use crate::shared::image_reference::rewrite_containers;
use crate::shared::pods::{has_hook_annotations, has_volumes, hooks_select, label_value};

/// Decides about pods and adapts them.
pub(crate) struct Step;

/// What makes a pod worth restoring although something would make it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    hooks: bool,
    volumes: bool,
}

#[async_trait]
impl RestoreStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/07-pod-restore-plugin"
    }

    fn resources(&self) -> Resources {
        &["pods"]
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        if stage::is_copy(input.restore) {
            return Ok(RestoreItemOutcome::changed(input.item, stage::mark));
        }
        let Some(wanted) = decide(input)? else { return Ok(RestoreItemOutcome::skipped()) };
        let takes_all = match annotation(input.item, annotations::DISCONNECT_KNOWN).unwrap_or_default() {
            "" => takes_all(input.restore, context).await?,
            _ => false,
        };
        let settings = context.settings().await?;
        let namespace = secrets_namespace(input, settings);
        let lookups = context.lookups(input.restore).await?;
        let secrets = match !context.is_preview(input.restore) && lookups.needs_pull_secrets().await? {
            false => None,
            true => {
                let wait = settings.pull_secret_wait;
                let found = lookups.pull_secrets(namespace, &prefixes(input.item), wait).await;
                Some(found.map_err(|error| Error::Item(format!("{}: {error}", describe(input.item))))?)
            }
        };
        let secrets = secrets.as_deref().map(|secrets| (secrets, namespace));
        restore(input, wanted, takes_all, secrets, settings)
    }
}

/// Why a pod is restored; `None` when it is not.
fn decide(input: RestoreItemInput<'_>) -> Result<Option<Wanted>> {
    if !annotation(input.item_from_backup, annotations::BUILD_NAME).unwrap_or_default().is_empty() {
        return Ok(None);
    }
    let wanted = Wanted { hooks: has_hooks(input.item, input.restore)?, volumes: has_volumes(input.item) };
    let is_owned = elements(input.item_from_backup, "/metadata/ownerReferences").next().is_some();
    Ok((!is_owned || wanted.hooks || wanted.volumes).then_some(wanted))
}

/// Whether hooks run in the pod. A restore without hooks does not look at those in annotations either.
fn has_hooks(pod: &Value, restore: &Restore) -> Result<bool> {
    if restore.spec.hooks.resources.is_empty() {
        return Ok(false);
    }
    let labels = pod.pointer("/metadata/labels").unwrap_or(&Value::Null);
    Ok(has_hook_annotations(pod) || hooks_select(restore, text(pod, "/metadata/namespace"), labels)?)
}

/// The kinds of pull secrets to wait for: the one every namespace gets, and those the pod names.
fn prefixes(pod: &Value) -> Vec<&'static str> {
    let named = elements(pod, "/spec/imagePullSecrets").filter_map(|secret| prefix_of(text(secret, "/name")));
    std::iter::once(DEFAULT_PREFIX).chain(named).collect()
}

fn restore(
    input: RestoreItemInput<'_>,
    wanted: Wanted,
    takes_all: bool,
    secrets: Option<(&PullSecrets, &str)>,
    settings: &Settings,
) -> Result<RestoreItemOutcome> {
    let mut pod = input.item.clone();
    remove(&mut pod, "/spec", "nodeSelector");
    disconnect(&mut pod, input.restore, wanted, takes_all);
    rewrite_containers(&mut pod, "/spec", input.restore);
    if let Some((secrets, namespace)) = secrets {
        let first_wins = settings.compat(Compat::FirstPullSecret);
        for reference in elements_mut(&mut pod, "/spec/imagePullSecrets") {
            let found = secrets.replacement(text(reference, "/name"), namespace, first_wins);
            let found = found.map_err(|error| Error::Item(format!("{}: {error}", describe(input.item))))?;
            if let Some(name) = found {
                reference["name"] = name.into();
            }
        }
    }
    stage::adapt(&mut pod, input.restore, settings);
    Ok(RestoreItemOutcome::updated(input.item, pod))
}

/// Takes away the labels by which a deployment config would count the pod among its own, and remove it.
fn disconnect(pod: &mut Value, restore: &Restore, wanted: Wanted, takes_all: bool) {
    let has_labels = !label(pod, labels::DEPLOYMENT).unwrap_or_default().is_empty()
        && !label(pod, labels::DEPLOYMENT_CONFIG).unwrap_or_default().is_empty();
    let is_known = !annotation(pod, annotations::DISCONNECT_KNOWN).unwrap_or_default().is_empty();
    let stays = if is_known { wanted.hooks || wanted.volumes } else { takes_all };
    if has_labels && stays {
        remove_label(pod, labels::DEPLOYMENT);
        remove_label(pod, labels::DEPLOYMENT_CONFIG);
        set_label(pod, labels::DISCONNECTED, &label_value(metadata::name(restore)));
    }
}
