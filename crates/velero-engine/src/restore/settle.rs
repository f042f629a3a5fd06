//! What follows once an object has been made: its status, its owners, and what needs time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::Instrument;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::HookStatus;
use velero_cluster::{Error, RawItem};
use velero_plugin::{RestoreItemAction, RestoreItemOutcome};

use super::hooks::RestoredPod;
use super::item::{Item, Target, Wanted};
use super::ledger::Done;
use super::object::{self, Owners};
use super::plan::DEFINITIONS;
use super::run::{Mode, Run, lock};
use super::trouble::Ended;
use crate::detail;
use crate::fault::or_told;
use crate::stage::within;

const POLL: Duration = Duration::from_secs(1);
const STATUS_TRIES: usize = 5;

impl Run {
    /// Completes an object that was made.
    pub(super) async fn complete(
        &self,
        target: &Target<'_>,
        wanted: &Wanted,
        owners: &Owners,
        created: RawItem,
    ) -> Ended {
        if object::restores_status(&wanted.object, &target.item.resource, self.status_types.as_ref())
            && let Some(status) = &wanted.status
        {
            self.restore_status(target, wanted, status, &created).await;
        }
        self.restore_owners(target, wanted, owners).await;
        match &*target.item.resource {
            "pods" => {
                self.volume_context().pod_made(target, &created);
                self.start_hooks(target, &created);
            }
            "persistentvolumeclaims" => self.volume_context().claim_made(target, &created),
            DEFINITIONS => self.wait_for_definition(target).await,
            _ => {}
        }
        Ended::new(Done::Created, true)
    }

    /// Asks the cluster what it serves once definitions have been restored.
    pub(super) async fn learn_new_types(&self) {
        if self.mode == Mode::Preview || !self.types.has_new() {
            return;
        }
        match self.request.cluster.discover().await {
            Ok(discovery) => self.types.refresh(discovery),
            Err(error) => {
                let entry = self.journal.warning().namespace(None);
                entry.message(&format!("refresh discovery after restoring CRDs: {error}"));
            }
        }
    }

    async fn restore_status(&self, target: &Target<'_>, wanted: &Wanted, status: &Value, created: &RawItem) {
        let cluster = &self.request.cluster;
        let kind = &target.served.resource_type;
        let mut object = wanted.object.clone();
        object["status"] = status.clone();
        let mut version = created.to_value().map(|it| it["metadata"]["resourceVersion"].clone()).unwrap_or_default();
        let mut refused = None;
        for _ in 0..STATUS_TRIES {
            object["metadata"]["resourceVersion"] = version.take();
            let update = || cluster.update_status(kind, target.namespace(), &object);
            match self.send(&target.item.resource, false, update).await.result {
                Ok(_) => return,
                Err(error @ Error::Conflict(_)) => {
                    refused = Some(error);
                    let live = cluster.get(target.reference()).await.ok().flatten();
                    version = live.unwrap_or_default()["metadata"]["resourceVersion"].take();
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = refused {
            let entry = self.journal.warning().namespace(target.namespace());
            entry.message(&format!("could not restore the status of {}: {error}", target.item.id()));
        }
    }

    pub(super) fn start_hooks(&self, target: &Target<'_>, created: &RawItem) {
        let Ok(pod) = created.to_value() else {
            return;
        };
        let chosen = self.hook_rules.exec_hooks(&pod);
        for warning in &chosen.warnings {
            self.journal.warning().namespace(target.namespace()).message(warning);
        }
        if chosen.containers.is_empty() {
            return;
        }
        let namespace = target.namespace().unwrap_or_default();
        let pod = RestoredPod::new(self.request.cluster.clone(), self.journal.clone(), namespace, &target.name);
        let stage = detail!("hooks", velero.pod = format!("{namespace}/{}", target.name));
        let (journal, namespace, name) = (self.journal.clone(), namespace.to_owned(), target.name.clone());
        let lost = move |fault: &'static str| {
            let entry = journal.error().namespace(Some(&namespace));
            entry.message(&format!("the hooks of pod {namespace}/{name} did not all run: {fault}"));
            HookStatus { hooks_attempted: 1, hooks_failed: 1, ..HookStatus::default() }
        };
        let hooks = or_told(Arc::new(pod).run_hooks(chosen), lost);
        lock(&self.hooks).spawn(within(stage, hooks).in_current_span());
    }

    /// Waits until the API server serves the objects of a definition.
    async fn wait_for_definition(&self, target: &Target<'_>) {
        let (cluster, timeout) = (&self.request.cluster, self.request.resource_timeout);
        let kind = &target.served.resource_type;
        let ready =
            cluster.wait_until(kind.item(None, &target.name), timeout, |live| live.is_some_and(is_established)).await;
        if let Err(error) = ready {
            self.journal
                .error()
                .namespace(None)
                .message(&format!("the CRD {} is not available to use for custom resources: {error}", target.name));
        }
    }

    /// Waits until the additional items of an item can be used, if its action wants that.
    pub(super) async fn wait_for_additional(
        &self,
        action: &dyn RestoreItemAction,
        item: &Item,
        outcome: &RestoreItemOutcome,
        existing: &[ResourceIdentifier],
    ) {
        if !outcome.wait_for_additional_items || self.mode == Mode::Preview {
            return;
        }
        let timeout = outcome.additional_items_ready_timeout.unwrap_or(self.request.resource_timeout);
        let poll = async {
            while !action.are_additional_items_ready(existing, &self.request.restore).await? {
                tokio::time::sleep(POLL).await;
            }
            Ok::<(), velero_plugin::Error>(())
        };
        let trouble = match tokio::time::timeout(timeout, poll).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("error verifying additional items are ready to use: {error}"),
            Err(_) => format!("additional items for {} are not ready to use after {timeout:?}", item.id()),
        };
        self.journal.error().namespace(item.target.as_deref()).message(&trouble);
    }
}

fn is_established(definition: &Value) -> bool {
    let holds = |wanted: &str| {
        let conditions = definition["status"]["conditions"].as_array();
        let mut all = conditions.into_iter().flatten();
        all.any(|condition| condition["type"] == wanted && condition["status"] == "True")
    };
    holds("Established") && holds("NamesAccepted")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_ready_once_it_is_established_under_its_names() {
        let definition = |established: &str, names: &str| {
            json!({"status": {"conditions": [
                {"type": "Established", "status": established}, {"type": "NamesAccepted", "status": names}]}})
        };
        assert!(is_established(&definition("True", "True")));
        assert!(!is_established(&definition("False", "True")));
        assert!(!is_established(&definition("True", "False")));
        assert!(!is_established(&json!({})));
    }
}
