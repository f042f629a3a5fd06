//! What a mover is told when it starts.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use velero_api::DEFAULT_NAMESPACE;
use velero_api::records::{DataPathEndpoint, VOLUME_MODE_BLOCK, VOLUME_MODE_FILESYSTEM};

use crate::runtime::error::{Error, Result};
use crate::runtime::log_format::LogSettings;

/// Where the kubelet reads what a container says in the end.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// How often Velero tells how far it is.
const PROGRESS_PERIOD: Duration = Duration::from_secs(10);

/// The kind of the object that asks for the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedKind {
    /// A PodVolumeBackup.
    PodVolumeBackup,
    /// A PodVolumeRestore.
    PodVolumeRestore,
    /// A DataUpload.
    DataUpload,
    /// A DataDownload.
    DataDownload,
}

/// What a volume is to the pod that moves its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMode {
    /// A folder.
    #[default]
    Filesystem,
    /// A device.
    Block,
}

impl VolumeMode {
    /// The mode as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filesystem => VOLUME_MODE_FILESYSTEM,
            Self::Block => VOLUME_MODE_BLOCK,
        }
    }
}

/// A mode that volumes cannot have.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is no mode of a volume, use {VOLUME_MODE_FILESYSTEM} or {VOLUME_MODE_BLOCK}")]
pub struct UnknownVolumeMode {
    name: String,
}

impl FromStr for VolumeMode {
    type Err = UnknownVolumeMode;

    fn from_str(text: &str) -> Result<Self, UnknownVolumeMode> {
        let found = [Self::Filesystem, Self::Block].into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| UnknownVolumeMode { name: text.to_owned() })
    }
}

/// How a mover is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the server and of all its objects.
    pub namespace: String,
    /// The kubeconfig file; nothing means `$KUBECONFIG`, `~/.kube/config` or the service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file; nothing means its current one.
    pub context: Option<String>,
    /// The version it reports.
    pub version: String,
    /// The kind of its object.
    pub kind: MovedKind,
    /// The name of its object.
    pub name: String,
    /// Where the volume is mounted, or its device.
    pub volume_path: PathBuf,
    /// Whether that is a folder or a device.
    pub volume_mode: VolumeMode,
    /// How long to wait for what others have to do first.
    pub resource_timeout: Duration,
    /// The node it runs on, for its Events.
    pub node: String,
    /// How it logs.
    pub log: LogSettings,
    /// The file its last words are written to.
    pub termination_log: PathBuf,
    /// How often it tells how far it is.
    pub progress_period: Duration,
}

impl Settings {
    /// The usual settings for an object and its volume.
    pub fn new(kind: MovedKind, name: impl Into<String>, volume_path: impl Into<PathBuf>) -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            kubeconfig: None,
            context: None,
            version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            kind,
            name: name.into(),
            volume_path: volume_path.into(),
            volume_mode: VolumeMode::default(),
            resource_timeout: Duration::from_secs(600),
            node: String::new(),
            log: LogSettings::default(),
            termination_log: PathBuf::from(TERMINATION_LOG),
            progress_period: PROGRESS_PERIOD,
        }
    }

    /// Refuses settings that cannot work, naming the flag.
    pub(super) fn validate(&self) -> Result<()> {
        let refused = |flag, problem: &str| Err(Error::Setting { flag, problem: problem.to_owned() });
        if self.volume_path.as_os_str().is_empty() {
            return refused("volume-path", "it is empty; name the folder or device of the volume");
        }
        if self.name.is_empty() {
            let flag = match self.kind {
                MovedKind::PodVolumeBackup => "pod-volume-backup",
                MovedKind::PodVolumeRestore => "pod-volume-restore",
                MovedKind::DataUpload => "data-upload",
                MovedKind::DataDownload => "data-download",
            };
            return refused(flag, "it is empty; name the object that asks for the transfer");
        }
        if self.resource_timeout.is_zero() {
            return refused("resource-timeout", "it must be greater than 0");
        }
        Ok(())
    }

    /// The volume as results name it.
    pub(super) fn endpoint(&self) -> DataPathEndpoint {
        DataPathEndpoint {
            by_path: self.volume_path.display().to_string(),
            volume_mode: self.volume_mode.as_str().to_owned(),
            ..DataPathEndpoint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_known_by_its_name() {
        for mode in [VolumeMode::Filesystem, VolumeMode::Block] {
            assert_eq!(mode.as_str().parse::<VolumeMode>().unwrap(), mode);
        }
        assert!("block".parse::<VolumeMode>().unwrap_err().to_string().contains("Filesystem or Block"));
    }

    #[test]
    fn what_is_missing_is_named_by_its_flag() {
        let usual = Settings::new(MovedKind::DataUpload, "du", "/du");
        usual.validate().unwrap();
        let cases = [
            (Settings { name: String::new(), ..usual.clone() }, "--data-upload"),
            (Settings { volume_path: PathBuf::new(), ..usual.clone() }, "--volume-path"),
            (Settings { resource_timeout: Duration::ZERO, ..usual }, "--resource-timeout"),
        ];
        for (settings, flag) in cases {
            let text = settings.validate().unwrap_err().to_string();
            assert!(text.starts_with(flag), "{text}");
        }
    }
}
