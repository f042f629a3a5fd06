//! The volumes of a restore: which is made again, which is made of what was saved, and which is left to a provisioner.

use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo, Snapshot};
use velero_api::v1::RestoreSpec;
use velero_api::{FeatureFlags, labels};
use velero_cluster::RawItem;
use velero_plugin::item::{label, text};
use velero_rules::pod_volumes::copy_obstacle;
use velero_rules::resume::LeftPod;

use super::method::Method;
use super::methods::{Given, methods};
use super::restore_context::{LeftData, RestoreContext, RestoreNotes, VolumeVerdict};
use crate::restore::object::reset_binding;
use crate::restore::{Item, Target, Trouble};

/// The volumes of a restore: what becomes of each, and who makes it.
pub(crate) struct RestoreVolumes {
    /// What is known of them so far.
    pub(crate) notes: RestoreNotes,
    methods: Vec<Box<dyn Method>>,
}

/// The volumes of a restore, for one who comes with an item.
pub(crate) struct VolumeRestorer<'a> {
    pub volumes: &'a RestoreVolumes,
    pub context: RestoreContext<'a>,
}

impl VolumeRestorer<'_> {
    /// Makes a volume of what was saved, and puts it behind the object.
    pub(crate) async fn restore_volume(&self, item: &Item, volume: &mut Value) -> Result<(), Trouble> {
        match self.volumes.method_of(&item.name, volume) {
            Some((method, _)) => method.restore_volume(&self.context, item, volume).await,
            None => Ok(()),
        }
    }

    /// Takes notice of an operation that an action has begun on an item.
    pub(crate) fn follow(&self, item: &Item, operation_id: &str) {
        self.volumes.methods.iter().for_each(|method| method.follow_restore(&self.context, item, operation_id));
    }

    /// Takes notice of a claim that is about to be written, as its actions left it.
    pub(crate) fn restore_claim(&self, item: &Item, claim: &Value) {
        self.volumes.methods.iter().for_each(|method| method.restore_claim(&self.context, item, claim));
    }

    /// Where the data of an object would come from, in words.
    pub(crate) fn sources(&self, item: &Item, object: &Value) -> Vec<String> {
        self.context.sources(item, object)
    }

    /// Takes notice of a claim that was made.
    pub(crate) fn claim_made(&self, target: &Target<'_>, created: &RawItem) {
        self.volumes.methods.iter().for_each(|method| method.claim_made(&self.context, target, created));
    }

    /// Takes notice of a pod that was made.
    pub(crate) fn pod_made(&self, target: &Target<'_>, created: &RawItem) {
        self.volumes.methods.iter().for_each(|method| method.pod_made(&self.context, target, created));
    }

    /// Takes notice of a pod that was there already, and that an earlier restore made.
    pub(crate) fn pod_taken_over(&self, target: &Target<'_>, found: &RawItem, left: &LeftPod) {
        self.volumes.methods.iter().for_each(|method| method.pod_taken_over(&self.context, target, found, left));
    }

    /// Takes notice of an object that would be made.
    pub(crate) fn foresee(&self, target: &Target<'_>, object: &Value) {
        self.volumes.methods.iter().for_each(|method| method.foresee(&self.context, target, object));
    }

    /// Says what there is to say once all objects have been made.
    pub(crate) fn close(&self) {
        self.volumes.methods.iter().for_each(|method| method.close_restore(&self.context));
    }
}

/// What is known of a volume, and where that is told of.
type Known<'a> = (usize, &'a BackupVolumeInfo);

impl RestoreVolumes {
    pub(crate) fn new(
        infos: Vec<BackupVolumeInfo>,
        snapshots: Vec<Snapshot>,
        spec: &RestoreSpec,
        features: &FeatureFlags,
    ) -> Self {
        Self {
            notes: RestoreNotes::new(infos, spec, features),
            methods: methods(Given { snapshots, ..Given::default() }),
        }
    }

    /// The copies of volumes of pods that the restore puts back.
    pub(crate) fn copies(&self) -> Vec<PodVolumeInfo> {
        let wanted = self.notes.infos.all().filter(|_| self.notes.wishes.restore_copies);
        wanted.filter_map(|info| info.pvb_info.clone()).filter(|copy| copy_obstacle(copy).is_none()).collect()
    }

    /// Decides about a volume, prepares it if it is to be made, and remembers if its claim gets a new one.
    pub(crate) fn handle(&self, volume: &mut Value) -> VolumeVerdict {
        let name = text(volume, "/metadata/name").to_owned();
        let verdict = self.decide(&name, volume);
        match verdict {
            VolumeVerdict::AsItWas => {
                self.notes.map_claim(volume);
                reset_binding(volume);
            }
            VolumeVerdict::Anew | VolumeVerdict::AnewWithData(_) => self.notes.make_anew(name),
            VolumeVerdict::FromSnapshot => {}
        }
        verdict
    }

    /// The method that saved a volume, and what is known of that.
    fn method_of(&self, name: &str, volume: &Value) -> Option<(&dyn Method, Option<Known<'_>>)> {
        let listed = self.notes.infos.of_volume(name);
        let unlisted = self.methods.iter().find(|method| listed.is_none() && method.has_saved_unlisted(volume));
        if let Some(method) = unlisted {
            return Some((&**method, None));
        }
        let known = listed.or_else(|| self.known_by_claim(volume))?;
        Some((self.method_that_saved(known.1)?, Some(known)))
    }

    fn method_that_saved(&self, info: &BackupVolumeInfo) -> Option<&dyn Method> {
        self.methods.iter().find(|method| method.has_saved(info)).map(|method| &**method)
    }

    /// What is known of the claim of a volume that is not known by its name.
    fn known_by_claim(&self, volume: &Value) -> Option<Known<'_>> {
        let of = |pointer| text(volume, pointer);
        let mut known = self.notes.infos.of_claim(of("/spec/claimRef/namespace"), of("/spec/claimRef/name"));
        known.find(|(_, info)| info.pv_name.is_empty())
    }

    fn decide(&self, name: &str, volume: &Value) -> VolumeVerdict {
        if let Some((method, known)) = self.method_of(name, volume) {
            let verdict = method.verdict(&self.notes.wishes, known.map(|(_, info)| info));
            if let (Some((index, _)), Some(_)) = (known, verdict.left()) {
                self.notes.infos.tell(index);
            }
            return verdict;
        }
        match text(volume, "/spec/persistentVolumeReclaimPolicy") {
            "Delete" => VolumeVerdict::Anew,
            _ => VolumeVerdict::AsItWas,
        }
    }

    /// Where the data of a volume is that is wanted and cannot be brought back.
    fn lost(&self, info: &BackupVolumeInfo) -> Option<&'static str> {
        self.method_that_saved(info)?.verdict(&self.notes.wishes, Some(info)).left()
    }

    /// Where the data of a claim is that does not come back with it, unless that was told already.
    pub(crate) fn left_of_claim(&self, namespace: &str, claim: &Value) -> Option<&'static str> {
        let mut known = self.notes.infos.of_claim(namespace, text(claim, "/metadata/name")).peekable();
        if known.peek().is_none() {
            let mut methods = self.methods.iter().filter(|_| self.notes.infos.is_without_volumes());
            return methods.find_map(|method| method.left_of_unlisted_claim(&self.notes.wishes, claim));
        }
        let lost: Vec<_> = known.filter_map(|(index, info)| Some((index, self.lost(info)?))).collect();
        lost.into_iter().filter(|(index, _)| self.notes.infos.tell(*index)).map(|(_, what)| what).next()
    }

    /// The volumes of a pod whose data does not come back with it, unless that was told already, and where it is.
    pub(crate) fn left_of_pod(&self, namespace: &str, pod: &str) -> Vec<(String, &'static str)> {
        let lost =
            self.notes.infos.of_pod(namespace, pod).filter_map(|(index, info)| Some((index, info, self.lost(info)?)));
        let untold = lost.filter(|(index, ..)| self.notes.infos.tell(*index));
        let volume = |info: &BackupVolumeInfo| info.pvb_info.as_ref().map(|copy| copy.volume_name.clone());
        untold.map(|(_, info, what)| (volume(info).unwrap_or_default(), what)).collect()
    }

    /// Whether past work of Velero was done for the backup. That for others is there where it holds the namespace of the
    /// server.
    fn is_own(&self, work: &Value) -> bool {
        label(work, labels::BACKUP_NAME).is_none_or(|backup| backup == self.notes.backup)
    }

    /// Takes notice of past work of Velero that is in the backup.
    pub(crate) fn meet_work(&self, resource: &str, work: &Value) {
        let methods = self.methods.iter().filter(|_| self.is_own(work));
        methods.for_each(|method| method.meet_work(resource, work));
    }

    /// Where the data of a claim of the backup comes from, and how much it is, in words.
    pub(crate) fn source_of_claim(&self, namespace: &str, claim: &str) -> Option<String> {
        self.methods.iter().find_map(|method| method.source_of_claim(&self.notes.wishes, namespace, claim))
    }

    /// The data of a claim of which only an object of past work tells, and which does not come back.
    pub(crate) fn left_by_work<'o>(&self, work: &'o Value) -> Option<LeftData<'o>> {
        let left = self.methods.iter().find_map(|method| method.left_by_work(&self.notes.wishes, work))?;
        let is_known = self.notes.infos.of_claim(left.claim.0, left.claim.1).next().is_some();
        (self.notes.wishes.restore_data && !is_known && self.is_own(work)).then_some(left)
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
