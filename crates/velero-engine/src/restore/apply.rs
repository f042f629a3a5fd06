//! Writing an item: create it, and look only if it is there already.

use jiff::Timestamp;
use serde_json::{Value, json};
use velero_api::v1::ExistingResourcePolicy;
use velero_api::{dry_run, labels};
use velero_archive::go_json;
use velero_cluster::{Error, RawItem};
use velero_plugin::item::text;

use super::again::{Sent, misses_webhook, passing};
use super::existing::{self, Verdict};
use super::item::{Item, Target, Wanted};
use super::ledger::Done;
use super::object::{self, Owners};
use super::outcome::PreviewAction;
use super::plan::{DEFINITIONS, is_admission};
use super::run::{Mode, Run};
use super::trouble::{Ended, ItemResult, Trouble};
use crate::volumes::CLAIMS;

const PORT_TAKEN: &str = "provided port is already allocated";

impl Run {
    /// Writes an item, or says what writing it would do.
    pub(super) async fn write(&self, item: &Item, wanted: &Wanted) -> ItemResult {
        let Some(served) = self.types.of(&wanted.object) else {
            let why = self.types.unserved(&wanted.object);
            return Err(Trouble::error(format!("error restoring {}: {why}", item.id())));
        };
        let name = text(&wanted.object, "/metadata/name").to_owned();
        let target = Target { item, served, name, namespace: item.target.as_deref().map(str::to_owned) };
        let ended = match self.mode {
            Mode::Write => self.create(&target, wanted).await?,
            Mode::Preview => self.look(&target, wanted).await?,
        };
        if &*item.resource == DEFINITIONS && ended.done != Done::Failed {
            self.types.define(&wanted.object);
        }
        Ok(Ended { name: Some(target.name), ..ended })
    }

    async fn create(&self, target: &Target<'_>, wanted: &Wanted) -> ItemResult {
        let owners = object::owners(&wanted.managed_fields);
        let sent = self.send_create(target, &wanted.object, &owners).await;
        let error = match sent.result {
            Ok(created) => return Ok(self.complete(target, wanted, &owners, created).await),
            Err(error) => error,
        };
        let is_taken = is_taken(&error, &wanted.object);
        if !is_taken && !sent.unsure {
            return Err(failed(target, &error));
        }
        match self.find(target).await {
            // Whatever the last answer says: an earlier try was carried out, and only its answer was lost.
            Ok(Some(found)) if sent.unsure && self.is_ours(&found, &wanted.object) => {
                Ok(self.complete(target, wanted, &owners, found).await)
            }
            Ok(Some(found)) if is_taken => {
                let is_ours = self.take_over(target, &found);
                self.compare(target, wanted, stripped(&found), is_ours).await
            }
            Err(unread) if is_taken => Err(Trouble::warning(format!(
                "{} exists already, but it cannot be read, so it was not compared with the backup: {unread}",
                target.item.id()
            ))),
            _ => Err(failed(target, &error)),
        }
    }

    async fn send_create(&self, target: &Target<'_>, object: &Value, owners: &Owners) -> Sent<RawItem> {
        let manager = match owners {
            Owners::One(manager) => Some(manager.as_str()),
            Owners::None | Owners::Several => None,
        };
        // As Go writes it: a ControllerRevision is compared byte for byte with what its controller would write.
        let body = go_json::to_vec(object).unwrap_or_default();
        let cluster = &self.request.cluster;
        let create = || cluster.create_raw(target.reference(), body.clone(), manager);
        self.send(&target.item.resource, target.served.is_new, create).await
    }

    /// Whether an object in the cluster is the one that this restore sent: it carries its name, and is no older.
    fn is_ours(&self, found: &RawItem, sent: &Value) -> bool {
        let Ok(found) = found.to_value() else { return false };
        let same = |key: &str| {
            let value = |object: &Value| object["metadata"]["labels"][key].as_str().map(str::to_owned);
            value(&found).is_some() && value(&found) == value(sent)
        };
        let begin = self.request.restore.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let made: Option<Timestamp> = text(&found, "/metadata/creationTimestamp").parse().ok();
        same(labels::RESTORE_NAME) && same(labels::BACKUP_NAME) && begin.is_none_or(|begin| made >= Some(begin))
    }

    /// The object in the cluster.
    async fn find(&self, target: &Target<'_>) -> Result<Option<RawItem>, Error> {
        let cluster = &self.request.cluster;
        self.pace.send(cluster, cluster.get_raw(target.reference())).await
    }

    /// Deals with an object that is there already, perhaps made by a restore that this one goes on with.
    async fn compare(&self, target: &Target<'_>, wanted: &Wanted, live: Value, is_ours: bool) -> ItemResult {
        let policy = self.request.restore.spec.existing_resource_policy.as_ref();
        let equal = "it already exists in the cluster and is the same as the backed up version";
        match existing::decide(&live, &wanted.object, policy, is_ours) {
            Verdict::Equal => Ok(Ended { reason: Some(equal.to_owned()), ..Ended::new(Done::Skipped, true) }),
            Verdict::Relabel(labels) => {
                self.patch(target, &labels).await.map_err(|error| failed(target, &error).but_exists())?;
                Ok(Ended { reason: Some(equal.to_owned()), ..Ended::new(Done::Skipped, true) })
            }
            Verdict::Differs => Err(Trouble::warning(differs(wanted, policy)).left_as_it_is()),
            Verdict::Patch { patch, labels_only } => match self.patch(target, &patch).await {
                Ok(()) => Ok(Ended::new(Done::Updated, true)),
                Err(error) if misses_webhook(&error) => Err(failed(target, &error).but_exists()),
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
        let change = || cluster.merge_patch(target.reference(), patch);
        self.send(&target.item.resource, false, change).await.result.map(drop)
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
        let cluster = &self.request.cluster;
        let live = match target.served.is_new {
            true => None,
            false => self.find(target).await.map_err(|error| failed(target, &error))?,
        };
        let Some(live) = live.as_ref().map(stripped) else {
            let reason = self.look_at_creation(target, wanted).await?;
            let sources = self.volume_context().sources(item, &wanted.object);
            self.volume_context().foresee(target, &wanted.object);
            let reasons = std::iter::once(reason).chain(sources).filter(|reason| !reason.is_empty());
            let reason = reasons.collect::<Vec<_>>().join("; ");
            self.preview(item, PreviewAction::Create, &reason, Vec::new());
            return Ok(Ended::new(Done::Created, true));
        };
        let policy = self.request.restore.spec.existing_resource_policy.as_ref();
        let (action, reason) = match existing::decide(&live, &wanted.object, policy, false) {
            Verdict::Equal => (PreviewAction::Skip, "it exists and is the same".to_owned()),
            Verdict::Relabel(_) => {
                (PreviewAction::Skip, "it exists and is the same; its restore labels would change".to_owned())
            }
            Verdict::Differs => (PreviewAction::Conflict, "it exists, differs, and would stay as it is".to_owned()),
            Verdict::Patch { patch, .. } => {
                let answer = cluster.try_merge_patch(target.reference(), &patch).await;
                match answer.err().as_ref().and_then(|error| self.refusal_of_object(error)) {
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

    /// Asks the server whether it would take a new object; what is to be said about it.
    async fn look_at_creation(&self, target: &Target<'_>, wanted: &Wanted) -> Result<String, Trouble> {
        let (cluster, kind) = (&self.request.cluster, &target.served.resource_type);
        if !target.served.is_new && self.is_namespace_there(target.namespace()) {
            match cluster.try_create(kind, target.namespace(), &wanted.object).await {
                Err(error) if misses_webhook(&error) => {
                    let patience = passing(&error).patience(self.request.resource_timeout);
                    return Ok(format!(
                        "refused for now, tried again at the end for up to {patience:?}: {}",
                        message(&error)
                    ));
                }
                Err(error) if self.refusal_of_object(&error).is_some() => return Err(failed(target, &error)),
                _ => {}
            }
        }
        if &*target.item.resource == CLAIMS {
            let original = target.item.original.as_deref().unwrap_or_default();
            return Ok(self.volumes.source_of_claim(original, &target.item.name).unwrap_or_default());
        }
        let last = "last of all, after everything it could refuse";
        Ok(if is_admission(&target.item.resource) { last.to_owned() } else { String::new() })
    }

    /// Why the server would not take an object. What it says about the one who asks counts only where the account that
    /// restores is asking.
    fn refusal_of_object<'a>(&self, error: &'a Error) -> Option<&'a str> {
        let message = error.refusal()?.message.as_str();
        let by_server = dry_run::is_asked(&self.request.restore);
        match error {
            Error::Invalid(_) if message.contains("does not support dry run") => None,
            Error::Invalid(_) => Some(message),
            Error::Forbidden(_) if by_server || !message.contains("cannot") => Some(message),
            _ => None,
        }
    }
}

/// An object without what only this cluster knows of it.
fn stripped(found: &RawItem) -> Value {
    let mut live = found.to_value().unwrap_or_default();
    object::strip(&mut live);
    object::take_managed_fields(&mut live);
    live
}

fn differs(wanted: &Wanted, policy: Option<&ExistingResourcePolicy>) -> String {
    let (kind, name) = (text(&wanted.object, "/kind"), text(&wanted.object, "/metadata/name"));
    let object = if policy.is_some() { format!("{kind} {name:?}") } else { format!("{kind}:{name}") };
    format!(
        "could not restore, {object} already exists. Warning: the in-cluster version is different than the backed-up version"
    )
}

fn failed(target: &Target<'_>, error: &Error) -> Trouble {
    Trouble::error(format!("error restoring {}: {}", target.item.id(), message(error))).passing(passing(error))
}

/// The server's own sentence where there is one: the rest is in front of it already.
fn message(error: &Error) -> String {
    error.refusal().map_or_else(|| error.to_string(), |refusal| refusal.message.clone())
}

/// Whether a create was refused because the object is there. A service whose node port is taken may be taken by itself.
fn is_taken(error: &Error, object: &Value) -> bool {
    let own_port =
        || text(object, "/kind") == "Service" && error.refusal().is_some_and(|it| it.message.contains(PORT_TAKEN));
    matches!(error, Error::AlreadyExists(_)) || own_port()
}
