//! The volumes of a backup: native and CSI snapshots, moved data.

use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, CsiSnapshotInfo, NativeSnapshotInfo, Snapshot, VolumeMethod};

use super::BackupFiles;
use super::describer::Describer;
use super::files::{FetchError, Fetched};

/// What a backup says about its volumes.
pub(super) struct Volumes {
    /// Volumes with a native snapshot.
    pub(super) native: Vec<BackupVolumeInfo>,
    /// Volumes with a CSI snapshot.
    pub(super) csi: Vec<BackupVolumeInfo>,
    /// Whether the backup is older than the file about volumes.
    pub(super) legacy: bool,
}

/// Why nothing can be said about the volumes.
pub(super) enum Trouble {
    /// The file about volumes cannot be fetched.
    Get(String),
    /// The file about volumes cannot be read.
    Read(String),
    /// The older file about native snapshots cannot be used.
    Native(String),
    /// The older files about CSI snapshots cannot be used.
    Csi(String),
}

impl Volumes {
    /// Puts together what the files say.
    pub(super) fn gather(files: &BackupFiles) -> Result<Self, Trouble> {
        match &files.volume_infos {
            Some(Ok(infos)) => {
                let with = |method: VolumeMethod| {
                    infos.iter().filter(move |info| info.backup_method.as_ref() == Some(&method))
                };
                let native = with(VolumeMethod::NativeSnapshot).cloned().collect();
                Ok(Self { native, csi: with(VolumeMethod::CsiSnapshot).cloned().collect(), legacy: false })
            }
            Some(Err(FetchError::Failed(error))) => Err(Trouble::Get(error.clone())),
            Some(Err(FetchError::Unreadable(error))) => Err(Trouble::Read(error.clone())),
            Some(Err(FetchError::NotFound)) | None => Self::gather_legacy(files),
        }
    }

    fn gather_legacy(files: &BackupFiles) -> Result<Self, Trouble> {
        let native = match &files.native_snapshots {
            None => Vec::new(),
            Some(file) => {
                checked(file, "native snapshot info").map_err(Trouble::Native)?.iter().map(of_native).collect()
            }
        };
        let csi = match &files.csi_snapshots {
            None => Vec::new(),
            Some(file) => {
                let (snapshots, contents) = checked(file, "vs list").map_err(Trouble::Csi)?;
                contents.iter().map(|content| of_content(content, snapshots)).collect()
            }
        };
        Ok(Self { native, csi, legacy: true })
    }

    /// What is said when there is no CSI snapshot.
    pub(super) fn no_csi_text(&self) -> &'static str {
        if self.legacy { "<none included or not detectable>" } else { "<none included>" }
    }
}

fn checked<'a, T>(file: &'a Fetched<T>, what: &str) -> Result<&'a T, String> {
    file.as_ref().map_err(|error| match error {
        FetchError::Unreadable(error) => format!("error to decode {what}: {error}"),
        other => format!("error to download {what}: {other}"),
    })
}

fn of_native(snapshot: &Snapshot) -> BackupVolumeInfo {
    BackupVolumeInfo {
        pv_name: snapshot.spec.persistent_volume_name.clone(),
        native_snapshot_info: Some(NativeSnapshotInfo {
            snapshot_handle: snapshot.status.provider_snapshot_id.clone(),
            volume_type: snapshot.spec.volume_type.clone(),
            volume_az: snapshot.spec.volume_az.clone(),
            iops: snapshot.spec.volume_iops.map(|iops| iops.to_string()).unwrap_or_default(),
            ..NativeSnapshotInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

fn of_content(content: &Value, snapshots: &[Value]) -> BackupVolumeInfo {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&content["metadata"]["name"]);
    let bound = |snapshot: &&Value| {
        let source = &snapshot["spec"]["source"]["persistentVolumeClaimName"];
        source.is_string() && snapshot["status"]["boundVolumeSnapshotContentName"].as_str() == Some(&name)
    };
    let (claim, namespace) = match snapshots.iter().rfind(bound) {
        Some(snapshot) => {
            (text(&snapshot["spec"]["source"]["persistentVolumeClaimName"]), text(&snapshot["metadata"]["namespace"]))
        }
        None => ("<PVC name not found>".to_owned(), String::new()),
    };
    BackupVolumeInfo {
        pvc_name: claim,
        pvc_namespace: namespace,
        preserve_local_snapshot: true,
        csi_snapshot_info: Some(CsiSnapshotInfo {
            driver: text(&content["spec"]["driver"]),
            snapshot_handle: text(&content["status"]["snapshotHandle"]),
            size: content["status"]["restoreSize"].as_i64().unwrap_or_default(),
            vsc_name: name,
            ..CsiSnapshotInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

/// Describes the snapshots of a backup; says whether the files could be used.
pub(super) fn describe_volumes(describer: &mut Describer<'_>, files: &BackupFiles) -> bool {
    let volumes = match Volumes::gather(files) {
        Ok(volumes) => volumes,
        Err(trouble) => {
            let text = match trouble {
                Trouble::Get(error) => format!("getting backup volume info: {error}"),
                Trouble::Read(error) => format!("reading backup volume info: {error}"),
                Trouble::Native(error) => format!("concluding native snapshot info: {error}"),
                Trouble::Csi(error) => format!("concluding CSI snapshot info: {error}"),
            };
            describer.line(format_args!("\t<error {text}>"));
            return false;
        }
    };
    if volumes.native.is_empty() {
        describer.line("\tVelero-Native Snapshots: <none included>");
    } else {
        describer.line("\tVelero-Native Snapshots:");
        volumes.native.iter().for_each(|info| describe_native(describer, info));
    }
    describer.gap();
    if volumes.csi.is_empty() {
        describer.line(format_args!("\tCSI Snapshots: {}", volumes.no_csi_text()));
    } else {
        describer.line("\tCSI Snapshots:");
        volumes.csi.iter().for_each(|info| describe_csi(describer, info));
    }
    true
}

fn describe_native(describer: &mut Describer<'_>, info: &BackupVolumeInfo) {
    if !describer.manner.details {
        return describer.line(format_args!("\t\t{}: specify --details for more information", info.pv_name));
    }
    let native = info.native_snapshot_info.clone().unwrap_or_default();
    describer.line(format_args!("\t\t{}:", info.pv_name));
    describer.field("\t\t\tSnapshot ID", native.snapshot_handle);
    describer.field("\t\t\tType", native.volume_type);
    describer.field("\t\t\tAvailability Zone", native.volume_az);
    describer.field("\t\t\tIOPS", native.iops);
    describer.field("\t\t\tResult", result_text(info));
}

/// How the work on a volume ended; empty when the file does not say.
pub(super) fn result_text(info: &BackupVolumeInfo) -> &str {
    info.result.as_ref().map_or("", |result| result.as_str())
}

/// The data mover of a volume; empty means the built-in one.
pub(super) fn data_mover(name: &str) -> &str {
    if name.is_empty() { "velero" } else { name }
}

fn describe_csi(describer: &mut Describer<'_>, info: &BackupVolumeInfo) {
    const INCLUDED: &str = "included, specify --details for more information";
    let details = describer.manner.details;
    describer.line(format_args!("\t\t{}/{}:", info.pvc_namespace, info.pvc_name));
    match (info.preserve_local_snapshot, details) {
        (false, _) => {}
        (true, false) => describer.line(format_args!("\t\t\tSnapshot: {INCLUDED}")),
        (true, true) => describe_local_snapshot(describer, info),
    }
    match (info.snapshot_data_moved, details) {
        (false, _) => {}
        (true, false) => describer.line(format_args!("\t\t\tData Movement: {INCLUDED}")),
        (true, true) => describe_data_movement(describer, info),
    }
}

fn describe_local_snapshot(describer: &mut Describer<'_>, info: &BackupVolumeInfo) {
    let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
    describer.line("\t\t\tSnapshot:");
    if !info.snapshot_data_moved && !snapshot.operation_id.is_empty() {
        describer.line(format_args!("\t\t\t\tOperation ID: {}", snapshot.operation_id));
    }
    describer.line(format_args!("\t\t\t\tSnapshot Content Name: {}", snapshot.vsc_name));
    describer.line(format_args!("\t\t\t\tStorage Snapshot ID: {}", snapshot.snapshot_handle));
    describer.line(format_args!("\t\t\t\tSnapshot Size (bytes): {}", snapshot.size));
    describer.line(format_args!("\t\t\t\tCSI Driver: {}", snapshot.driver));
    describer.line(format_args!("\t\t\t\tResult: {}", result_text(info)));
}

fn describe_data_movement(describer: &mut Describer<'_>, info: &BackupVolumeInfo) {
    let movement = info.snapshot_data_movement_info.clone().unwrap_or_default();
    describer.line("\t\t\tData Movement:");
    describer.line(format_args!("\t\t\t\tOperation ID: {}", movement.operation_id));
    describer.line(format_args!("\t\t\t\tData Mover: {}", data_mover(&movement.data_mover)));
    describer.line(format_args!("\t\t\t\tUploader Type: {}", movement.uploader_type));
    describer.line(format_args!("\t\t\t\tMoved data Size (bytes): {}", movement.size));
    if movement.incremental_size > 0 {
        describer.line(format_args!("\t\t\t\tIncremental data Size (bytes): {}", movement.incremental_size));
    }
    describer.line(format_args!("\t\t\t\tResult: {}", result_text(info)));
}
