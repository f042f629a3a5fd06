//! The conditions of a volume policy and the facts of a volume they are tested on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{PolicyError, invalid, null_as_empty};
use crate::quantity::Quantity;

/// The volume sources a policy can name, as they are spelt in a PersistentVolume or a pod.
const VOLUME_TYPES: [&str; 29] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "image",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "vsphereVolume",
];

/// The volume modes a claim can have.
const VOLUME_MODES: [&str; 2] = ["Filesystem", "Block"];
/// The access modes a claim can have.
const ACCESS_MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

/// An NFS export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NfsSource {
    /// The host; empty in a condition means any.
    pub server: String,
    /// The path; empty in a condition means any.
    pub path: String,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CsiSource {
    /// The driver; empty in a condition means any.
    pub driver: String,
    /// What the driver says about the volume; a condition asks for some of it.
    pub volume_attributes: Option<BTreeMap<String, String>>,
}

/// What a policy can know of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeData {
    /// The size of the PersistentVolume.
    pub capacity: Quantity,
    /// The storage class of the PersistentVolume.
    pub storage_class: String,
    /// The volume source, such as `nfs` or `emptyDir`.
    pub volume_type: String,
    /// The NFS export, if it is one.
    pub nfs: Option<NfsSource>,
    /// The CSI volume, if it is one.
    pub csi: Option<CsiSource>,
    /// The labels of the claim.
    pub claim_labels: BTreeMap<String, String>,
    /// The phase of the claim.
    pub claim_phase: String,
    /// The volume mode of the claim.
    pub claim_volume_mode: String,
    /// The access modes of the claim.
    pub claim_access_modes: Vec<String>,
}

impl VolumeData {
    /// Reads a PersistentVolume. A size that is missing or unreadable counts as zero.
    pub fn of_persistent_volume(volume: &Value) -> Self {
        let spec = &volume["spec"];
        Self {
            capacity: spec["capacity"]["storage"].as_str().and_then(|size| size.parse().ok()).unwrap_or_default(),
            storage_class: text(&spec["storageClassName"]),
            ..Self::of_source(spec)
        }
    }

    /// Reads an entry of the volumes of a pod.
    pub fn of_pod_volume(volume: &Value) -> Self {
        Self::of_source(volume)
    }

    /// Adds what the claim of the volume says.
    #[must_use]
    pub fn with_claim(self, claim: &Value) -> Self {
        let labels = claim["metadata"]["labels"].as_object().into_iter().flatten();
        let access_modes = claim["spec"]["accessModes"].as_array().into_iter().flatten();
        Self {
            claim_labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            claim_phase: text(&claim["status"]["phase"]),
            claim_volume_mode: text(&claim["spec"]["volumeMode"]),
            claim_access_modes: access_modes.map(text).collect(),
            ..self
        }
    }

    fn of_source(source: &Value) -> Self {
        let volume_type = match source["storageos"].is_object() {
            true => "storageOS",
            false => VOLUME_TYPES.into_iter().find(|name| source[*name].is_object()).unwrap_or_default(),
        };
        let attributes = |csi: &Value| {
            let pairs = csi["volumeAttributes"].as_object()?.iter();
            Some(pairs.map(|(key, value)| (key.clone(), text(value))).collect())
        };
        let (nfs, csi) = (&source["nfs"], &source["csi"]);
        Self {
            volume_type: volume_type.to_owned(),
            nfs: nfs.is_object().then(|| NfsSource { server: text(&nfs["server"]), path: text(&nfs["path"]) }),
            csi: csi
                .is_object()
                .then(|| CsiSource { driver: text(&csi["driver"]), volume_attributes: attributes(csi) }),
            ..Self::default()
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ConditionsDocument {
    capacity: Option<String>,
    #[serde(deserialize_with = "null_as_empty")]
    storage_class: Vec<String>,
    nfs: Option<NfsSource>,
    csi: Option<CsiSource>,
    #[serde(deserialize_with = "null_as_empty")]
    volume_types: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pvc_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_empty")]
    pvc_phase: Vec<String>,
    pvc_volume_mode: Option<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pvc_access_modes: Vec<String>,
}

/// Conditions that must all hold; one that is not given always holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VolumeConditions {
    smallest: Quantity,
    /// Zero stands for no limit.
    largest: Quantity,
    storage_classes: Vec<String>,
    nfs: Option<NfsSource>,
    csi: Option<CsiSource>,
    volume_types: Vec<String>,
    claim_labels: BTreeMap<String, String>,
    claim_phases: Vec<String>,
    claim_volume_mode: String,
    claim_access_modes: Vec<String>,
}

impl VolumeConditions {
    /// Reads the conditions of the policy that stands at `place` in the document.
    pub(super) fn new(place: &str, document: ConditionsDocument) -> Result<Self, PolicyError> {
        let (smallest, largest) = parse_capacity(document.capacity.as_deref().unwrap_or_default())?;
        let needs_driver = |csi: &CsiSource| csi.driver.is_empty() && csi.volume_attributes.is_some();
        if document.csi.as_ref().is_some_and(needs_driver) {
            return Err(invalid("csi driver should not be empty when filtering by volume attributes"));
        }
        let place = format!("{place}.conditions");
        let mode = document.pvc_volume_mode.clone().filter(|mode| !mode.is_empty());
        check_known(&format!("{place}.pvcVolumeMode"), mode.as_slice(), &VOLUME_MODES)?;
        check_known(&format!("{place}.pvcAccessModes"), &document.pvc_access_modes, &ACCESS_MODES)?;
        Ok(Self {
            smallest,
            largest,
            storage_classes: document.storage_class,
            nfs: document.nfs,
            csi: document.csi,
            volume_types: document.volume_types,
            claim_labels: document.pvc_labels,
            claim_phases: document.pvc_phase,
            claim_volume_mode: document.pvc_volume_mode.unwrap_or_default(),
            claim_access_modes: document.pvc_access_modes,
        })
    }

    pub(super) fn match_volume(&self, volume: &VolumeData) -> bool {
        let is_one_of = |allowed: &[String], value: &String| allowed.is_empty() || allowed.contains(value);
        self.smallest <= volume.capacity
            && (self.largest.is_zero() || volume.capacity <= self.largest)
            && is_one_of(&self.storage_classes, &volume.storage_class)
            && is_one_of(&self.volume_types, &volume.volume_type)
            && is_one_of(&self.claim_phases, &volume.claim_phase)
            && self.nfs.as_ref().is_none_or(|wanted| nfs_matches(wanted, volume.nfs.as_ref()))
            && self.csi.as_ref().is_none_or(|wanted| csi_matches(wanted, volume.csi.as_ref()))
            && contains_all(&volume.claim_labels, &self.claim_labels)
            && (self.claim_volume_mode.is_empty() || self.claim_volume_mode == volume.claim_volume_mode)
            && self.access_modes_match(&volume.claim_access_modes)
    }

    /// The modes must be the same, in any order.
    fn access_modes_match(&self, modes: &[String]) -> bool {
        let as_set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        self.claim_access_modes.is_empty()
            || (self.claim_access_modes.len() == modes.len() && as_set(&self.claim_access_modes) == as_set(modes))
    }
}

/// Refuses what no claim can have: such a condition would never hold, and the volumes it means would go another way.
fn check_known(place: &str, given: &[String], known: &[&str]) -> Result<(), PolicyError> {
    match given.iter().find(|value| !known.contains(&value.as_str())) {
        Some(unknown) => Err(invalid(format!("{place}: {unknown:?} is unknown, use {}", known.join(", ")))),
        None => Ok(()),
    }
}

fn nfs_matches(wanted: &NfsSource, found: Option<&NfsSource>) -> bool {
    found.is_some_and(|found| {
        (wanted.path.is_empty() || wanted.path == found.path)
            && (wanted.server.is_empty() || wanted.server == found.server)
    })
}

fn csi_matches(wanted: &CsiSource, found: Option<&CsiSource>) -> bool {
    let empty = BTreeMap::new();
    found.is_some_and(|found| {
        let wanted_attributes = wanted.volume_attributes.as_ref().unwrap_or(&empty);
        let found_attributes = found.volume_attributes.as_ref().unwrap_or(&empty);
        wanted.driver.is_empty() || (wanted.driver == found.driver && contains_all(found_attributes, wanted_attributes))
    })
}

fn contains_all(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| found.get(key) == Some(value))
}

/// Reads `low,high`; an empty side has no limit.
fn parse_capacity(text: &str) -> Result<(Quantity, Quantity), PolicyError> {
    if text.is_empty() {
        return Ok(Default::default());
    }
    let wrong = |reason: &str| invalid(format!("wrong format of Capacity {text}{reason}"));
    let (low, high) = text.split_once(',').ok_or_else(|| wrong(": write it as \"low,high\""))?;
    let side = |side: &str| match side.trim() {
        "" => Ok(Quantity::default()),
        size => size.parse::<Quantity>().map_err(|error| wrong(&format!(" with err {error}"))),
    };
    let (smallest, largest) = (side(low)?, side(high)?);
    let in_order = smallest <= largest || (!smallest.is_zero() && largest.is_zero());
    if in_order { Ok((smallest, largest)) } else { Err(invalid(format!("illegal values for capacity {text}"))) }
}
