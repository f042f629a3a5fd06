//! The namespaces items go to: made once each, before anything is put into them.

use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use velero_cluster::{Error, ItemRef, types};
use velero_plugin::item::text;

use super::known_namespaces::Usable;
use super::ledger::Done;
use super::outcome::{ItemPreview, PreviewAction};
use super::plan::NAMESPACES;
use super::run::{Mode, Run, lock, namespace_key};
use super::trouble::{Passing, Trouble};

const AT_ONCE: usize = 32;
const GOING_AWAY: &str = "its namespace is being deleted; the restore would wait for the end of that";

/// What was found when a namespace was made sure of.
#[derive(Clone, Copy)]
enum Found {
    Created,
    Existing,
}

impl Run {
    /// Makes sure of all planned namespaces.
    pub(super) async fn restore_namespaces(&self) {
        stream::iter(&self.plan.namespaces)
            .take_while(|_| std::future::ready(!self.is_halted()))
            .for_each_concurrent(AT_ONCE, |(target, original)| async move {
                // Items of a namespace that cannot be used say so themselves.
                let _ = self.ensure_namespace(original, target).await;
            })
            .await;
    }

    /// Whether a namespace could not be made yet.
    pub(super) fn misses_namespaces(&self) -> bool {
        !lock(&self.namespaces.missing).is_empty()
    }

    /// Makes sure that a namespace exists and is not going away.
    pub(super) async fn ensure_namespace(&self, original: &str, target: &str) -> Result<(), Trouble> {
        let ready = Arc::clone(lock(&self.namespaces.ready).entry(target.to_owned()).or_default());
        match ready.get_or_try_init(|| self.prepare_namespace(original, target)).await? {
            Usable::Yes => Ok(()),
            Usable::Never(trouble) => Err(trouble.clone()),
        }
    }

    /// Makes a namespace. An error is a trouble that may pass.
    async fn prepare_namespace(&self, original: &str, target: &str) -> Result<Usable, Trouble> {
        let found = match self.mode {
            Mode::Write => self.make_namespace(original, target).await,
            Mode::Preview => self.look_at_namespace(target).await,
        };
        match found {
            Ok(found) => {
                lock(&self.namespaces.missing).remove(target);
                self.close_namespace(target, Some(found)).await;
                Ok(Usable::Yes)
            }
            Err(trouble) if trouble.may_pass() => {
                lock(&self.namespaces.missing).insert(target.to_owned(), trouble.message.clone());
                Err(trouble)
            }
            Err(trouble) => {
                self.fail_namespace(target, &trouble.message).await;
                Ok(Usable::Never(trouble))
            }
        }
    }

    /// Closes the books of namespaces that could not be made in all the time.
    pub(super) async fn give_up_namespaces(&self) {
        let missing = std::mem::take(&mut *lock(&self.namespaces.missing));
        for (target, message) in missing {
            self.fail_namespace(&target, &message).await;
        }
    }

    async fn fail_namespace(&self, target: &str, message: &str) {
        if self.mode == Mode::Write {
            self.journal.error().resource(NAMESPACES).name(target).message(message);
        }
        self.close_namespace(target, None).await;
    }

    async fn close_namespace(&self, target: &str, found: Option<Found>) {
        let key = namespace_key(target);
        let (listed, done) = match found {
            Some(Found::Created) => (Some("v1/Namespace"), Done::Created),
            Some(Found::Existing) => (None, Done::Skipped),
            None => (Some("v1/Namespace"), Done::Failed),
        };
        // Nobody else works on it: each namespace is made sure of by one at a time.
        self.ledger.take(&key, self.next_row()).await;
        self.ledger.close(&key, listed, target, done, found.is_some());
    }

    async fn make_namespace(&self, original: &str, target: &str) -> Result<Found, Trouble> {
        let object = self.namespace_object(original, target);
        let cluster = &self.request.cluster;
        for _ in 0..2 {
            let sent = self.send(NAMESPACES, false, || cluster.create(&types::NAMESPACES, None, &object)).await;
            match sent.result {
                Ok(_) => {
                    self.journal.info().resource(NAMESPACES).name(target).message("Created namespace");
                    return Ok(Found::Created);
                }
                Err(Error::AlreadyExists(_)) => {}
                Err(error) => return Err(unmade("creating", target, &error)),
            }
            match cluster
                .get(types::NAMESPACES.item(None, target))
                .await
                .map_err(|error| unmade("getting", target, &error))?
            {
                Some(live) if is_going_away(&live) => self.wait_for_end(target).await?,
                // An earlier try was carried out, and only its answer was lost.
                Some(live) if sent.unsure && carries(&live, &object) => return Ok(Found::Created),
                Some(_) => return Ok(Found::Existing),
                None => {}
            }
        }
        Err(Trouble::velero(format!(
            "namespace {target} exists at one moment and does not at the next; restore again when it is settled"
        )))
    }

    async fn wait_for_end(&self, target: &str) -> Result<(), Trouble> {
        let timeout = self.request.terminating_timeout;
        self.journal.info().resource(NAMESPACES).name(target).message("The namespace is being deleted, waiting");
        let gone =
            self.request.cluster.wait_until(types::NAMESPACES.item(None, target), timeout, |live| live.is_none()).await;
        match gone {
            Ok(_) => Ok(()),
            Err(Error::TimedOut { .. }) => Err(Trouble::velero(format!(
                "timed out waiting for terminating namespace {target} to disappear before restoring; \
                 see what keeps it (its finalizers and status.conditions) and restore again"
            ))),
            Err(error) => Err(unmade("waiting for terminating", target, &error)),
        }
    }

    async fn look_at_namespace(&self, target: &str) -> Result<Found, Trouble> {
        let live = self.request.cluster.get(types::NAMESPACES.item(None, target)).await;
        let live = live.map_err(|error| Trouble::velero(error.to_string()))?;
        let (action, reason) = match &live {
            None => (PreviewAction::Create, ""),
            Some(live) if is_going_away(live) => (PreviewAction::Conflict, GOING_AWAY),
            Some(_) => {
                // Nothing is done about it, so it is not listed: no more than the restore lists it.
                lock(&self.namespaces.there).insert(target.to_owned());
                return Ok(Found::Existing);
            }
        };
        let preview = ItemPreview {
            action,
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            resource: NAMESPACES.to_owned(),
            namespace: None,
            original_namespace: None,
            name: target.to_owned(),
            reason: reason.to_owned(),
            changes: Vec::new(),
        };
        self.add_preview(namespace_key(target), preview);
        match action {
            PreviewAction::Conflict => Err(Trouble::velero(GOING_AWAY.to_owned())),
            _ => Ok(Found::Created),
        }
    }

    /// Whether a preview can ask about objects in a namespace; always about those in none.
    pub(super) fn is_namespace_there(&self, target: Option<&str>) -> bool {
        target.is_none_or(|target| lock(&self.namespaces.there).contains(target))
    }

    /// The namespace as the backup has it, under its new name; a bare one if the backup has none.
    fn namespace_object(&self, original: &str, target: &str) -> Value {
        let stored = self.contents.find(ItemRef::new(NAMESPACES, None, original));
        let kept = stored.and_then(|stored| self.contents.read(stored).ok()).unwrap_or_default();
        let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}});
        for field in ["labels", "annotations"] {
            if kept["metadata"][field].is_object() {
                object["metadata"][field] = kept["metadata"][field].clone();
            }
        }
        if kept["spec"].is_object() {
            object["spec"] = kept["spec"].clone();
        }
        object
    }
}

fn unmade(doing: &str, target: &str, error: &Error) -> Trouble {
    let passing = if error.is_retryable() { Passing::InTime } else { Passing::Never };
    Trouble::velero(format!("error {doing} namespace {target}: {error}")).passing(passing)
}

/// Whether a namespace has the labels and annotations of another.
fn carries(live: &Value, sent: &Value) -> bool {
    ["labels", "annotations"].into_iter().all(|field| {
        let sent = sent["metadata"][field].as_object();
        sent.into_iter().flatten().all(|(key, value)| live["metadata"][field][key] == *value)
    })
}

fn is_going_away(namespace: &Value) -> bool {
    text(namespace, "/status/phase") == "Terminating" || !text(namespace, "/metadata/deletionTimestamp").is_empty()
}
