//! Writing an item: create it, and look only if it is there already.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use velero_api::v1::ExistingResourcePolicy;
use velero_archive::go_json;
use velero_cluster::{Error, RawItem};

use super::act::{Item, Wanted};
use super::existing::{self, Verdict};
use super::ledger::Done;
use super::object::{self, Owners};
use super::outcome::PreviewAction;
use super::plan::DEFINITIONS;
use super::run::{Mode, Run};
use super::trouble::{Ended, ItemResult, Trouble};
use super::types::Served;

/// How long the server may take to serve a type whose definition it has accepted.
const NEW_TYPE: Duration = Duration::from_secs(30);
const NEW_TYPE_POLL: Duration = Duration::from_millis(200);
/// How long the server's admission may take to learn of an object that was made a moment ago.
const NEW_REFERENCE: Duration = Duration::from_secs(2);
const PORT_TAKEN: &str = "provided port is already allocated";

/// An object and where it goes.
pub(super) struct Target<'a> {
    pub item: &'a Item,
    pub served: Served,
    pub name: String,
    pub namespace: Option<String>,
}

impl Target<'_> {
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl Run {
    /// Writes an item, or says what writing it would do.
    pub(super) async fn write(&self, item: &Item, wanted: Wanted) -> ItemResult {
        let Some(served) = self.types.of(&wanted.object) else {
            let why = self.types.unserved(&wanted.object);
            return Err(Trouble::error(format!("error restoring {}: {why}", item.id())));
        };
        let name = object::text(&wanted.object, "/metadata/name").to_owned();
        let target = Target { item, served, name, namespace: item.target.as_deref().map(str::to_owned) };
        let ended = match self.mode {
            Mode::Write => self.create(&target, &wanted).await?,
            Mode::Preview => self.look(&target, &wanted).await?,
        };
        if &*item.resource == DEFINITIONS && ended.done != Done::Failed {
            self.types.define(&wanted.object);
        }
        Ok(Ended { name: Some(target.name), ..ended })
    }

    async fn create(&self, target: &Target<'_>, wanted: &Wanted) -> ItemResult {
        let owners = object::owners(&wanted.managed_fields);
        match self.send_create(target, &wanted.object, &owners).await {
            Ok(created) => {
                self.complete(target, wanted, &owners, created).await;
                Ok(Ended::new(Done::Created, true))
            }
            Err(error) if is_taken(&error, &wanted.object) => match self.live(target).await {
                Ok(Some(live)) => self.compare(target, wanted, live).await,
                Ok(None) => Err(failed(target, &error)),
                Err(unread) => Err(Trouble::warning(format!(
                    "{} exists already, but it cannot be read, so it was not compared with the backup: {unread}",
                    target.item.id()
                ))),
            },
            Err(error) => Err(failed(target, &error)),
        }
    }

    async fn send_create(&self, target: &Target<'_>, object: &Value, owners: &Owners) -> Result<RawItem, Error> {
        let cluster = &self.request.cluster;
        let manager = match owners {
            Owners::One(manager) => Some(manager.as_str()),
            Owners::None | Owners::Several => None,
        };
        let start = Instant::now();
        loop {
            // As Go writes it: a ControllerRevision is compared byte for byte with what its controller would write.
            let body = go_json::to_vec(object).unwrap_or_default();
            let kind = &target.served.resource_type;
            let request = cluster.create_raw(kind, target.namespace(), &target.name, body, manager);
            match self.pace.send(cluster, request).await {
                Err(Error::NotFound(_)) if target.served.is_new && start.elapsed() < NEW_TYPE => {
                    tokio::time::sleep(NEW_TYPE_POLL).await;
                }
                Err(error) if misses_reference(&error) && start.elapsed() < NEW_REFERENCE => {
                    tokio::time::sleep(NEW_TYPE_POLL).await;
                }
                answer => return answer,
            }
        }
    }

    async fn live(&self, target: &Target<'_>) -> Result<Option<Value>, Error> {
        let cluster = &self.request.cluster;
        let kind = &target.served.resource_type;
        let live = self.pace.send(cluster, cluster.get(kind, target.namespace(), &target.name)).await?;
        Ok(live.map(|mut live| {
            object::strip(&mut live);
            object::take_managed_fields(&mut live);
            live
        }))
    }

    /// Deals with an object that is there already.
    async fn compare(&self, target: &Target<'_>, wanted: &Wanted, live: Value) -> ItemResult {
        let policy = self.request.restore.spec.existing_resource_policy.as_ref();
        let equal = "it already exists in the cluster and is the same as the backed up version";
        match existing::decide(&live, &wanted.object, policy) {
            Verdict::Equal => Ok(Ended { reason: Some(equal.to_owned()), ..Ended::new(Done::Skipped, true) }),
            Verdict::Relabel(labels) => {
                self.patch(target, &labels).await.map_err(|error| failed(target, &error).but_exists())?;
                Ok(Ended { reason: Some(equal.to_owned()), ..Ended::new(Done::Skipped, true) })
            }
            Verdict::Differs => Err(Trouble::warning(differs(wanted, policy)).but_exists()),
            Verdict::Patch { patch, labels_only } => match self.patch(target, &patch).await {
                Ok(()) => Ok(Ended::new(Done::Updated, true)),
                Err(error) => {
                    if let Some(labels) = labels_only {
                        self.patch(target, &labels).await.map_err(|error| failed(target, &error).but_exists())?;
                    }
                    let id = target.item.id();
                    Err(Trouble::warning(format!("could not update {id}: {}", message(&error))).but_exists())
                }
            },
        }
    }

    pub(super) async fn patch(&self, target: &Target<'_>, patch: &Value) -> Result<(), Error> {
        let cluster = &self.request.cluster;
        let kind = &target.served.resource_type;
        self.pace.send(cluster, cluster.merge_patch(kind, target.namespace(), &target.name, patch)).await.map(drop)
    }

    /// Writes back who owns the fields, where more than one did.
    pub(super) async fn restore_owners(&self, target: &Target<'_>, wanted: &Wanted, owners: &Owners) {
        if *owners != Owners::Several {
            return;
        }
        let patch = json!({"metadata": {"managedFields": wanted.managed_fields}});
        let Err(error) = self.patch(target, &patch).await else {
            return;
        };
        let id = target.item.id();
        match error {
            Error::NotFound(_) => {
                let entry = self.journal.warning().namespace(target.namespace());
                entry.message(&format!("{id} was gone when its managed fields were restored: {error}"));
            }
            error => {
                let entry = self.journal.error().namespace(target.namespace());
                entry.message(&format!("error restoring the managed fields of {id}: {}", message(&error)));
            }
        }
    }

    /// Says what writing an item would do; the server itself is asked whether it would take it.
    async fn look(&self, target: &Target<'_>, wanted: &Wanted) -> ItemResult {
        let item = target.item;
        let (cluster, kind) = (&self.request.cluster, &target.served.resource_type);
        let live = match target.served.is_new {
            true => None,
            false => self.live(target).await.map_err(|error| failed(target, &error))?,
        };
        let Some(live) = live else {
            let asked = !target.served.is_new && self.is_namespace_there(target.namespace());
            if asked && let Err(error) = cluster.try_create(kind, target.namespace(), &wanted.object).await {
                refusal_of_object(&error).map_or(Ok(()), |_| Err(failed(target, &error)))?;
            }
            self.preview(item, PreviewAction::Create, "", Vec::new());
            return Ok(Ended::new(Done::Created, true));
        };
        let policy = self.request.restore.spec.existing_resource_policy.as_ref();
        let (action, reason) = match existing::decide(&live, &wanted.object, policy) {
            Verdict::Equal => (PreviewAction::Skip, "it exists and is the same".to_owned()),
            Verdict::Relabel(_) => {
                (PreviewAction::Skip, "it exists and is the same; its restore labels would change".to_owned())
            }
            Verdict::Differs => (PreviewAction::Conflict, "it exists, differs, and would stay as it is".to_owned()),
            Verdict::Patch { patch, .. } => {
                let answer = cluster.try_merge_patch(kind, target.namespace(), &target.name, &patch).await;
                match answer.err().as_ref().and_then(refusal_of_object) {
                    None => (PreviewAction::Update, "it exists and differs".to_owned()),
                    Some(refusal) => (PreviewAction::Conflict, format!("it differs, and cannot be updated: {refusal}")),
                }
            }
        };
        let changes = match action {
            PreviewAction::Skip => Vec::new(),
            _ => existing::changes(&live, &wanted.object),
        };
        self.preview(item, action, &reason, changes);
        Ok(Ended::new(Done::Skipped, true))
    }
}

/// Why the server would not take an object. What it says about the one who asks does not count: another account restores.
fn refusal_of_object(error: &Error) -> Option<&str> {
    let message = error.refusal()?.message.as_str();
    match error {
        Error::Invalid(_) if message.contains("does not support dry run") => None,
        Error::Invalid(_) => Some(message),
        Error::Forbidden(_) if !message.contains("cannot") => Some(message),
        _ => None,
    }
}

fn differs(wanted: &Wanted, policy: Option<&ExistingResourcePolicy>) -> String {
    let (kind, name) = (object::text(&wanted.object, "/kind"), object::text(&wanted.object, "/metadata/name"));
    let object = if policy.is_some() { format!("{kind} {name:?}") } else { format!("{kind}:{name}") };
    format!(
        "could not restore, {object} already exists. Warning: the in-cluster version is different than the backed-up version"
    )
}

fn failed(target: &Target<'_>, error: &Error) -> Trouble {
    Trouble::error(format!("error restoring {}: {}", target.item.id(), message(error)))
}

/// The server's own sentence where there is one: the rest is in front of it already.
fn message(error: &Error) -> String {
    error.refusal().map_or_else(|| error.to_string(), |refusal| refusal.message.clone())
}

/// Whether the server refused a pod for something that it may not know yet: it looks these up in caches.
fn misses_reference(error: &Error) -> bool {
    let Error::Forbidden(refusal) = error else { return false };
    let pieces = ["no PriorityClass with name", "error looking up service account", "pod rejected: RuntimeClass"];
    pieces.iter().any(|piece| refusal.message.contains(piece))
}

/// Whether a create was refused because the object is there. A service whose node port is taken may be taken by itself.
fn is_taken(error: &Error, object: &Value) -> bool {
    let own_port = || {
        object::text(object, "/kind") == "Service" && error.refusal().is_some_and(|it| it.message.contains(PORT_TAKEN))
    };
    matches!(error, Error::AlreadyExists(_)) || own_port()
}
