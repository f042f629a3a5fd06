//! What is asked for the data of one volume of a pod: whether it is copied through the file system of the pod.
//!
//! A volume policy that matches decides alone. Otherwise the pod does: it names volumes to copy, or, where copying is
//! the default, volumes not to copy. Some volumes have no data of their own and are never copied; others cannot be
//! copied as they are now.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use velero_api::annotations::{VOLUMES_TO_BACKUP, VOLUMES_TO_EXCLUDE};

use super::VolumeRules;
use crate::resource_policies::{VolumeActionType, VolumeData};

/// The types of volumes that are made of something else, or that no other pod can look into.
const NEVER_COPIED: [&str; 6] = ["hostPath", "secret", "configMap", "projected", "downwardAPI", "image"];
/// The type of volumes whose claim is made for the pod.
const EPHEMERAL: &str = "ephemeral";
/// How the volume was named in which pods of old had the token of their service account.
const TOKEN_PREFIX: &str = "default-token";

/// What is asked for the data of a volume of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodVolumeDecision {
    /// Nobody asks for a copy. If it is a persistent volume, a snapshot may be taken of that.
    NotAsked,
    /// It is copied through the file system of the pod.
    Copy(AskedBy),
    /// A copy is asked for, but the volume cannot be copied as it is.
    CannotCopy(AskedBy, Obstacle),
}

/// Who asks for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// A volume policy of the backup.
    Policy,
    /// The annotation of the pod.
    Pod,
    /// The backup, for all volumes that are not named otherwise.
    Default,
}

impl AskedBy {
    /// Who asks, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "a volume policy of the backup",
            Self::Pod => "the annotation backup.velero.io/backup-volumes of the pod",
            Self::Default => "defaultVolumesToFsBackup of the backup",
        }
    }

    /// What to change so that no copy is asked for.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Policy => "let the policy that matches the volume say snapshot or skip",
            Self::Pod => "take the volume out of that annotation",
            Self::Default => "name the volume in the annotation backup.velero.io/backup-volumes-excludes of the pod",
        }
    }
}

/// Why a volume cannot be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// It has no data of its own: the pod names a volume that is never copied.
    Type,
    /// The pod does not run, so its volumes are nowhere mounted.
    NotRunning,
    /// The pod has ended, and is never restored.
    Ended,
    /// It lies on the disk of the node.
    HostPath,
    /// It has no file system.
    Block,
    /// No container of the pod mounts it.
    NotMounted,
    /// Its claim is no part of the backup, so nothing could be restored.
    LeftOut,
}

impl Obstacle {
    /// The obstacle in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Type => "volumes of its type are never copied",
            Self::NotRunning => "the pod does not run",
            Self::Ended => "the pod has ended",
            Self::HostPath => "it is a folder of the node (hostPath)",
            Self::Block => "it is a block device without a file system",
            Self::NotMounted => "no container of the pod mounts it",
            Self::LeftOut => "the backup leaves claims out",
        }
    }

    /// Whether a copy that is missing for this reason is an error and not only worth a warning. What a pod names is expected,
    /// the data of a claim is missed after a restore, and a pod that does not run yet is restored; one that has ended is not.
    /// A backup that leaves claims out wants it so.
    pub fn is_error(self, asked_by: AskedBy, volume: &PodVolume) -> bool {
        self != Self::LeftOut && (asked_by == AskedBy::Pod || volume.outlives_pod() || self == Self::NotRunning)
    }
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: String,
    /// The claim it is made of; that of an ephemeral one is made for the pod and has its name.
    pub claim: Option<String>,
    /// Its type, such as `emptyDir`.
    pub data: VolumeData,
    /// Whether the pod asks for a copy.
    pub opted_in: bool,
    /// Whether the pod asks for no copy.
    pub opted_out: bool,
    /// Whether a container of the pod mounts it.
    pub is_mounted: bool,
}

impl PodVolume {
    /// Whether it is copied as far as the pod and the default can tell.
    pub(super) fn is_copied(&self, by_default: bool) -> bool {
        if by_default { !self.opted_out } else { self.opted_in }
    }

    /// Whether the claim it is made of comes and goes with the pod.
    pub fn is_ephemeral(&self) -> bool {
        self.data.volume_type == EPHEMERAL
    }

    /// Whether it has a claim that is there without the pod, and that other pods may use.
    pub fn outlives_pod(&self) -> bool {
        self.claim.is_some() && !self.is_ephemeral()
    }

    fn is_never_copied(&self) -> bool {
        NEVER_COPIED.contains(&self.data.volume_type.as_str()) || self.name.starts_with(TOKEN_PREFIX)
    }
}

/// The volumes of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// All of them.
    pub volumes: Vec<PodVolume>,
    /// The phase of the pod, such as `Running`.
    pub phase: String,
    /// Volumes that the pod asks to be copied and does not have.
    pub unknown: Vec<String>,
}

impl PodVolumes {
    /// Reads a pod.
    pub fn read(pod: &[u8]) -> Result<Self, serde_json::Error> {
        let PodDocument { metadata, spec, status } = serde_json::from_slice(pod)?;
        let annotations = metadata.annotations.unwrap_or_default();
        let named = |key: &str| -> BTreeSet<&str> {
            let names = annotations.get(key).map(String::as_str).unwrap_or_default();
            names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
        };
        let (included, excluded) = (named(VOLUMES_TO_BACKUP), named(VOLUMES_TO_EXCLUDE));
        let containers = spec.init_containers.into_iter().chain(spec.containers).flatten();
        let mounts = containers.flat_map(|container| container.volume_mounts.into_iter().flatten());
        let mounted: BTreeSet<String> = mounts.map(|mount| mount.name).collect();
        let volume = |source: Value| {
            let name = source["name"].as_str().unwrap_or_default().to_owned();
            let of_pod = source[EPHEMERAL].is_object().then(|| format!("{}-{name}", metadata.name));
            PodVolume {
                claim: source["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned).or(of_pod),
                data: VolumeData::of_pod_volume(&source),
                opted_in: included.contains(name.as_str()),
                opted_out: excluded.contains(name.as_str()),
                is_mounted: mounted.contains(&name),
                name,
            }
        };
        let volumes: Vec<PodVolume> = spec.volumes.into_iter().flatten().map(volume).collect();
        let is_unknown = |name: &&&str| !volumes.iter().any(|volume| volume.name == **name);
        let unknown = included.iter().filter(is_unknown).map(|name| (*name).to_owned()).collect();
        Ok(Self { volumes, phase: status.phase.unwrap_or_default(), unknown })
    }
}

impl VolumeRules<'_> {
    /// What is asked for a volume of a pod. `data` is what is known of it: with its persistent volume and its claim, if
    /// it has them.
    pub fn of_pod_volume(&self, pod: &PodVolumes, volume: &PodVolume, data: &VolumeData) -> PodVolumeDecision {
        let never = match volume {
            volume if self.claims_are_left_out && volume.outlives_pod() => Some(Obstacle::LeftOut),
            volume if volume.is_never_copied() => Some(Obstacle::Type),
            _ => None,
        };
        if let Some(obstacle) = never {
            // Who names it expects something; the default means all but these.
            return match volume.opted_in {
                true => PodVolumeDecision::CannotCopy(AskedBy::Pod, obstacle),
                false => PodVolumeDecision::NotAsked,
            };
        }
        let asked_by = match self.policy_action(data) {
            Some(VolumeActionType::FsBackup) => AskedBy::Policy,
            Some(_) => return PodVolumeDecision::NotAsked,
            None if !volume.is_copied(self.fs_backup_by_default) => return PodVolumeDecision::NotAsked,
            None if self.fs_backup_by_default => AskedBy::Default,
            None => AskedBy::Pod,
        };
        let obstacle = match data {
            _ if matches!(pod.phase.as_str(), "Succeeded" | "Failed") => Obstacle::Ended,
            _ if pod.phase != "Running" => Obstacle::NotRunning,
            data if data.volume_type == "hostPath" => Obstacle::HostPath,
            data if data.claim_volume_mode == "Block" => Obstacle::Block,
            _ if !volume.is_mounted => Obstacle::NotMounted,
            _ => return PodVolumeDecision::Copy(asked_by),
        };
        PodVolumeDecision::CannotCopy(asked_by, obstacle)
    }
}

/// The part of a pod that is read.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PodDocument {
    metadata: MetadataDocument,
    spec: SpecDocument,
    status: StatusDocument,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct MetadataDocument {
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SpecDocument {
    volumes: Option<Vec<Value>>,
    containers: Option<Vec<ContainerDocument>>,
    init_containers: Option<Vec<ContainerDocument>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ContainerDocument {
    volume_mounts: Option<Vec<MountDocument>>,
}

#[derive(Deserialize)]
struct MountDocument {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusDocument {
    phase: Option<String>,
}

#[cfg(test)]
mod tests;
