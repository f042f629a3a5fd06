//! The custom resources and records that lie in a bucket, and what pods tell each other.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use velero_api::records::{
    BackupOperation, BackupResult, BackupVolumeInfo, DataPathProgress, ResourceList, RestoreOperation, RestoreResult,
    RestoreVolumeInfo, ResultsFile, Snapshot,
};
use velero_api::v1::{
    Backup, BackupRepository, BackupStorageLocation, DeleteBackupRequest, DownloadRequest, PodVolumeBackup,
    PodVolumeRestore, Restore, Schedule, ServerStatusRequest, VolumeSnapshotLocation,
};
use velero_api::v2alpha1::{DataDownload, DataUpload, DataUploadResult};
use velero_archive::gzjson;
use velero_store::BackupReservation;
use velero_testkit::hostile::Parser;

/// Every kind with every field, as Velero writes it.
const FILLED: &str = include_str!("../../crates/velero-api/tests/golden/filled.json");

fn parsers() -> Vec<Parser> {
    let kinds: Value = serde_json::from_str(FILLED).unwrap();
    let kinds = kinds.as_object().unwrap().values().map(|object| serde_json::to_vec(object).unwrap()).collect();
    let records = Parser::of("records", read_records);
    let compressed = records.samples.iter().map(|record| gzjson::compress(record).unwrap()).collect();
    vec![
        Parser { name: "kinds", samples: kinds, parse: read_kinds },
        records,
        Parser { name: "compressed records", samples: compressed, parse: read_compressed },
    ]
}

/// Reads, and writes what was read: what comes out must be the same the second time.
fn survives<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&value).unwrap();
    let again: T = serde_json::from_slice(&written).expect("what was written cannot be read");
    assert_eq!(serde_json::to_vec(&again).unwrap(), written);
}

fn read_kinds(bytes: &[u8]) {
    survives::<Backup>(bytes);
    survives::<BackupRepository>(bytes);
    survives::<BackupStorageLocation>(bytes);
    survives::<DeleteBackupRequest>(bytes);
    survives::<DownloadRequest>(bytes);
    survives::<PodVolumeBackup>(bytes);
    survives::<PodVolumeRestore>(bytes);
    survives::<Restore>(bytes);
    survives::<Schedule>(bytes);
    survives::<ServerStatusRequest>(bytes);
    survives::<VolumeSnapshotLocation>(bytes);
    survives::<DataDownload>(bytes);
    survives::<DataUpload>(bytes);
}

fn read_records(bytes: &[u8]) {
    survives::<Vec<BackupOperation>>(bytes);
    survives::<Vec<RestoreOperation>>(bytes);
    survives::<Vec<BackupVolumeInfo>>(bytes);
    survives::<Vec<RestoreVolumeInfo>>(bytes);
    survives::<Vec<Snapshot>>(bytes);
    survives::<Vec<PodVolumeBackup>>(bytes);
    survives::<ResultsFile>(bytes);
    survives::<ResourceList>(bytes);
    survives::<BackupResult>(bytes);
    survives::<RestoreResult>(bytes);
    survives::<DataPathProgress>(bytes);
    survives::<DataUploadResult>(bytes);
    survives::<BackupReservation>(bytes);
}

fn read_compressed(bytes: &[u8]) {
    let whole = gzjson::decompress(bytes, 1 << 20);
    let decoded = gzjson::decode::<Value>(bytes, 1 << 20);
    assert!(whole.is_ok() || decoded.is_err(), "damage was not noticed");
}

velero_testkit::strike_all!(parsers);
