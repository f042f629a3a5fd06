//! What the restores have begun with the data of volumes that this one goes on with. It is known before the first object is
//! restored: what still moved data for them is told to stop and waited for, so that nobody else writes into a volume.

use std::time::Duration;

use futures::{TryStreamExt, future};
use serde_json::{Value, json};
use velero_api::metadata::namespace;
use velero_api::v1::PodVolumeRestore;
use velero_api::v2alpha1::DataDownload;
use velero_api::{DataMovePhase, labels, with_causes};
use velero_cluster::{Cluster, Error, ResourceType, types};
use velero_plugin::item::{label, name, text};
use velero_rules::resume::{Download, Relative};

use crate::Journal;
use crate::restore::RestoreRequest;

const PAGE: u32 = 100;

/// What the restores have begun that this one goes on with; empty for most restores.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The restores.
    pub family: Vec<Relative>,
    fillings: Vec<PodVolumeRestore>,
    downloads: Vec<DataDownload>,
}

impl Earlier {
    /// Looks at what they have begun, and waits until it has ended, well or not.
    pub(crate) async fn meet(request: &RestoreRequest, journal: &Journal) -> Result<Self, Error> {
        if request.resumes.is_empty() {
            return Ok(Self::default());
        }
        let transfers = Transfers {
            cluster: &request.cluster,
            journal,
            namespace: namespace(&request.restore),
            selector: format!("{} in ({})", labels::RESTORE_NAME, labels_of(&request.resumes).join(",")),
            patience: request.resource_timeout,
        };
        let (fillings, downloads) =
            future::try_join(transfers.ended(&types::POD_VOLUME_RESTORES), transfers.ended(&types::DATA_DOWNLOADS))
                .await?;
        Ok(Self {
            family: request.resumes.clone(),
            fillings: fillings.into_iter().filter_map(|found| serde_json::from_value(found).ok()).collect(),
            downloads: downloads.into_iter().filter_map(|found| serde_json::from_value(found).ok()).collect(),
        })
    }

    /// What labels call the restores.
    pub(crate) fn labels(&self) -> Vec<String> {
        labels_of(&self.family)
    }

    /// The restore that has made an object.
    pub(crate) fn maker(&self, object: &Value) -> Option<&Relative> {
        let made_by = label(object, labels::RESTORE_NAME)?;
        self.family.iter().find(|relative| labels::valid_value(&relative.name) == made_by)
    }

    /// How far the filling of a volume of a pod is; one that was never asked for is as good as failed.
    pub(crate) fn filling(&self, pod_uid: &str, volume: &str) -> Download {
        let of_volume = |filling: &&PodVolumeRestore| {
            filling.spec.pod.uid.as_deref() == Some(pod_uid) && filling.spec.volume == volume
        };
        let known = self.fillings.iter().filter(of_volume).map(|filling| Download::of(filling.status.phase()));
        known.max().unwrap_or(Download::Failed)
    }

    /// The volumes that were filled, or were to be, of pods of this name, each with the UID of its claim.
    pub(crate) fn fillings_of<'e>(
        &'e self,
        pod: (&'e str, &'e str),
    ) -> impl Iterator<Item = (&'e str, &'e str, Download)> {
        let is_of_pod = move |filling: &&PodVolumeRestore| {
            let of = &filling.spec.pod;
            (of.namespace.as_deref(), of.name.as_deref()) == (Some(pod.0), Some(pod.1))
        };
        self.fillings.iter().filter(is_of_pod).map(|filling| {
            let claim_uid = velero_api::metadata::label(filling, labels::PVC_UID);
            (filling.spec.volume.as_str(), claim_uid, Download::of(filling.status.phase()))
        })
    }

    /// Whether a claim was filled through a pod.
    pub(crate) fn has_filled_claim(&self, claim_uid: &str) -> bool {
        let is_done = |filling: &PodVolumeRestore| *filling.status.phase() == DataMovePhase::Completed;
        let is_of = |filling: &&PodVolumeRestore| velero_api::metadata::label(*filling, labels::PVC_UID) == claim_uid;
        !claim_uid.is_empty() && self.fillings.iter().filter(is_of).any(is_done)
    }

    /// How far what fills the new volume of a claim is, if somebody has asked for that.
    pub(crate) fn download(&self, namespace: &str, claim: &str) -> Option<Download> {
        let is_of = |download: &&DataDownload| {
            let target = &download.spec.target_volume;
            (target.namespace.as_str(), target.pvc.as_str()) == (namespace, claim)
        };
        self.downloads.iter().filter(is_of).map(|download| Download::of(download.status.phase())).max()
    }
}

fn labels_of(family: &[Relative]) -> Vec<String> {
    family.iter().map(|relative| labels::valid_value(&relative.name)).collect()
}

/// The objects that ask for data to be moved for earlier restores.
struct Transfers<'a> {
    cluster: &'a Cluster,
    journal: &'a Journal,
    namespace: &'a str,
    selector: String,
    patience: Duration,
}

impl Transfers<'_> {
    /// All of a type, each at its end, or as it is when that takes too long.
    async fn ended(&self, resource_type: &ResourceType) -> Result<Vec<Value>, Error> {
        let mut pages =
            Box::pin(self.cluster.list_pages(resource_type, Some(self.namespace), Some(&self.selector), PAGE));
        let mut found = Vec::new();
        loop {
            match pages.try_next().await {
                Ok(Some(page)) => {
                    for item in &page.items {
                        found.push(item.to_value()?);
                    }
                }
                // A cluster without this kind has none.
                Ok(None) | Err(Error::NotFound(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(future::join_all(found.into_iter().map(|transfer| self.end(resource_type, transfer))).await)
    }

    async fn end(&self, resource_type: &ResourceType, transfer: Value) -> Value {
        if has_ended(&transfer) {
            return transfer;
        }
        let (kind, name) = (&resource_type.kind, name(&transfer).to_owned());
        let place = resource_type.item(Some(self.namespace), &name);
        self.journal
            .info()
            .message(&format!("{kind} {name} of an earlier restore has not ended: it is told to, and waited for"));
        let why = "cancelled because its restore has ended and is resumed by another";
        let uid = text(&transfer, "/metadata/uid");
        let patch = json!({"metadata": {"uid": uid}, "spec": {"cancel": true}, "status": {"message": why}});
        if transfer["spec"]["cancel"] != true
            && let Err(error) = self.cluster.merge_patch(place, &patch).await
            && !error.is_not_found()
        {
            let entry = self.journal.warning().error(&with_causes(&error));
            entry.message(&format!("{kind} {name} of an earlier restore could not be told to end"));
        }
        let is_over = |live: Option<&Value>| live.is_none_or(has_ended);
        match self.cluster.wait_until(place, self.patience, is_over).await {
            Ok(Some(ended)) => ended,
            // Who is gone has done nothing that anybody could count on.
            Ok(None) => json!({}),
            Err(_) => transfer,
        }
    }
}

fn has_ended(transfer: &Value) -> bool {
    DataMovePhase::from(text(transfer, "/status/phase")).is_terminal()
}
