//! What an interrupted restore left that this one goes on with: what is done stays, what waits for its data gets it, and what
//! can never get it is removed and made again. Only what carries the name of such a restore is touched.

use serde_json::Value;
use velero_api::labels;
use velero_cluster::{Error, ItemRef, RawItem, types};
use velero_plugin::item::{elements, text};
use velero_rules::resume::{Download, LeftClaim, LeftPod, Snapshot, awaited_snapshot, left_claim, left_pod};

use super::item::{Item, Target};
use super::run::Run;
use super::trouble::Trouble;
use crate::volumes::{CLAIMS, PODS};

/// How long a pod may take to end that does nothing but wait.
const GRACE_SECONDS: u32 = 1;

impl Run {
    /// Removes what an interrupted restore left in the place of a pod or claim, if its data can never come. Done before
    /// actions run: they look whether it is there.
    pub(super) async fn make_way(&self, item: &Item, from_backup: &Value) -> Result<(), Trouble> {
        if self.earlier.family.is_empty() {
            return Ok(());
        }
        let namespace = item.target.as_deref();
        match &*item.resource {
            PODS => self.make_way_for_pod(item, from_backup, types::PODS.item(namespace, &item.name)).await,
            CLAIMS => self.make_way_for_claim(item, types::PERSISTENT_VOLUME_CLAIMS.item(namespace, &item.name)).await,
            _ => Ok(()),
        }
    }

    async fn make_way_for_pod(&self, item: &Item, from_backup: &Value, place: ItemRef<'_>) -> Result<(), Trouble> {
        let Some(pod) = self.live(item, place).await? else {
            return self.check_not_filled_before(item, from_backup).await;
        };
        match left_pod(&pod, &self.earlier.family) {
            LeftPod::Foreign | LeftPod::Done | LeftPod::Waits { .. } => Ok(()),
            LeftPod::Leaving => self.wait_for_removal(item, place, &pod).await,
            LeftPod::Remade => self.remove(item, place, &pod).await,
            LeftPod::Stuck(why) => Err(Trouble::error(format!(
                "the data of pod {} is not restored, and the pod cannot be made again: {why}",
                item.id()
            ))
            .but_exists()),
        }
    }

    async fn make_way_for_claim(&self, item: &Item, place: ItemRef<'_>) -> Result<(), Trouble> {
        let Some(claim) = self.live(item, place).await? else { return Ok(()) };
        let namespace = item.target.as_deref();
        let download = self.earlier.download(namespace.unwrap_or_default(), &item.name);
        let snapshot = match awaited_snapshot(&claim) {
            None => Snapshot::There,
            Some(name) => match self.live(item, types::VOLUME_SNAPSHOTS.item(namespace, name)).await? {
                Some(_) => Snapshot::There,
                None => Snapshot::Gone,
            },
        };
        match left_claim(&claim, &self.earlier.family, download, snapshot) {
            LeftClaim::Foreign | LeftClaim::Done => Ok(()),
            LeftClaim::Leaving => self.wait_for_removal(item, place, &claim).await,
            LeftClaim::Remade => self.remove(item, place, &claim).await,
            LeftClaim::Unmarked => Err(Trouble::error(format!(
                "the data of {} is not restored: the claim waits for a volume that never comes, but its label {} does not name \
                 the earlier restore that asked for it, so it is not removed. Delete it, and resume the restore again",
                item.id(),
                labels::RESTORE_NAME
            ))
            .but_exists()),
            LeftClaim::Busy => Err(Trouble::error(format!(
                "the data of {} is not restored: its DataDownload of an earlier restore was told to end and has not; see that \
                 its node agent runs, and resume the restore again",
                item.id()
            ))
            .but_exists()),
        }
    }

    /// A pod that was filled and is gone since is not made again: its claims may be in use by what replaced it.
    async fn check_not_filled_before(&self, item: &Item, from_backup: &Value) -> Result<(), Trouble> {
        let namespace = item.target.as_deref().unwrap_or_default();
        let (mut filled, mut open) = (Vec::new(), Vec::new());
        for (volume, claim_uid, download) in self.earlier.fillings_of((namespace, &item.name)) {
            let Some(claim) = claim_of(from_backup, volume) else { continue };
            let live = self.live(item, types::PERSISTENT_VOLUME_CLAIMS.item(Some(namespace), claim)).await?;
            let is_same = live.is_some_and(|live| text(&live, "/metadata/uid") == claim_uid);
            match download {
                _ if !is_same => {}
                Download::Completed => filled.push(claim),
                Download::Failed | Download::Busy => open.push(claim),
            }
        }
        open.retain(|claim| !filled.contains(claim));
        match (filled.first(), open.first()) {
            (None, _) => Ok(()),
            (Some(claim), None) => Err(self.gone_since(item, from_backup, claim).await?),
            (Some(filled), Some(open)) => Err(Trouble::error(format!(
                "{} is gone, which an earlier restore made: its claim {filled} has its data, and {open} has not. Delete the \
                 claim {filled}, if what it holds is not needed, and resume the restore again",
                item.id()
            ))),
        }
    }

    /// What is said of a pod that was filled and is gone. Which pods of a controller there are is up to that, and their data is
    /// there; without one what was asked for is not there.
    async fn gone_since(&self, item: &Item, from_backup: &Value, claim: &str) -> Result<Trouble, Trouble> {
        let gone = format!(
            "{} was made and filled by an earlier restore, and is gone since; it is not made again, so that its claim {claim} keeps \
             what it holds by now",
            item.id()
        );
        let owner = elements(from_backup, "/metadata/ownerReferences").find(|owner| owner["controller"] == true);
        if let Some(owner) = owner
            && let Some(served) = self.types.of(owner)
        {
            let name = text(owner, "/name");
            let place = served.resource_type.item(item.target.as_deref(), name);
            if self.live(item, place).await?.is_some() {
                let kind = text(owner, "/kind");
                return Ok(Trouble::warning(format!("{gone}. {kind} {name} sees to its pods, and is there")));
            }
        }
        Ok(Trouble::error(format!(
            "{gone}. Make the pod by hand; or delete the claim {claim}, if what it holds is not needed, and resume the restore again"
        )))
    }

    /// Goes on with an object that was there already, if an earlier restore made it; whether one did.
    pub(super) fn take_over(&self, target: &Target<'_>, found: &RawItem) -> bool {
        let Some((object, has_run_hooks)) = self.made_earlier(found) else { return false };
        match &*target.item.resource {
            PODS => {
                self.volume_context().pod_taken_over(target, found, &left_pod(&object, &self.earlier.family));
                if !has_run_hooks {
                    self.start_hooks(target, found);
                }
            }
            CLAIMS => self.volume_context().claim_made(target, found),
            _ => {}
        }
        true
    }

    /// An object that an earlier restore made, and whether that one has run its hooks.
    fn made_earlier(&self, found: &RawItem) -> Option<(Value, bool)> {
        if self.earlier.family.is_empty() {
            return None;
        }
        let object = found.to_value().ok()?;
        let has_run_hooks = self.earlier.maker(&object)?.has_run_hooks;
        Some((object, has_run_hooks))
    }

    async fn live(&self, item: &Item, place: ItemRef<'_>) -> Result<Option<Value>, Trouble> {
        let cluster = &self.request.cluster;
        let live = self.pace.send(cluster, cluster.get(place)).await;
        live.map_err(|error| Trouble::error(format!("error looking what is there of {}: {error}", item.id())))
    }

    async fn remove(&self, item: &Item, place: ItemRef<'_>, live: &Value) -> Result<(), Trouble> {
        let (cluster, uid) = (&self.request.cluster, text(live, "/metadata/uid"));
        let entry = self.journal.info().item(item.reference());
        entry.message("Removing what an earlier restore made, since its data never came; it is made again");
        let delete = || cluster.delete_own(place, uid, GRACE_SECONDS);
        let sent = self.send(&item.resource, false, delete).await;
        sent.result.map_err(|error| Trouble::error(format!("error removing the present {}: {error}", item.id())))?;
        self.wait_for_removal(item, place, live).await
    }

    async fn wait_for_removal(&self, item: &Item, place: ItemRef<'_>, live: &Value) -> Result<(), Trouble> {
        let (timeout, uid) = (self.request.terminating_timeout, text(live, "/metadata/uid"));
        let is_gone = |live: Option<&Value>| live.is_none_or(|live| text(live, "/metadata/uid") != uid);
        match self.request.cluster.wait_until(place, timeout, is_gone).await {
            Ok(_) => Ok(()),
            Err(Error::TimedOut { .. }) => Err(Trouble::error(format!(
                "timed out waiting for the present {} to go away before restoring it with its data; see what keeps it (its \
                 finalizers and what uses it) and resume the restore again",
                item.id()
            ))
            .but_exists()),
            Err(error) => Err(Trouble::error(format!("error waiting for the present {}: {error}", item.id()))),
        }
    }
}

/// The claim that a volume of a pod is made of.
fn claim_of<'p>(pod: &'p Value, volume: &str) -> Option<&'p str> {
    let found = elements(pod, "/spec/volumes").find(|found| text(found, "/name") == volume)?;
    found["persistentVolumeClaim"]["claimName"].as_str()
}
