//! A backup described as JSON, for scripts. Some keys are misspelt; scripts rely on them.

use serde::Serialize;
use serde_json::{Map, Value, json};
use velero_api::annotations;
use velero_api::records::{BackupVolumeInfo, Results};
use velero_api::v1::{
    Backup, BackupResourceHook, BackupResourceHookSpec, BackupSpec, DeleteBackupRequest, PodVolumeBackup, Stage,
};

use super::backup::failed_deletions;
use super::describer::{NONE, choice, joined};
use super::files::FetchError;
use super::pod_volumes::{backups_by_phase, phase_text};
use super::volumes::{Volumes, data_mover, result_text};
use super::{BackupFiles, Manner};
use crate::output::tables::selector_text;

/// Describes a backup as indented JSON with sorted keys.
pub(crate) fn describe_backup_as_json(
    backup: &Backup,
    deletions: &[DeleteBackupRequest],
    pod_volumes: &[PodVolumeBackup],
    files: &BackupFiles,
    manner: &Manner,
) -> serde_json::Result<String> {
    let metadata = &backup.metadata;
    let mut output = Map::new();
    output.insert(
        "metadata".into(),
        json!({
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels,
            "annotations": metadata.annotations,
        }),
    );
    output.insert("phase".into(), json!(backup.status.phase.as_ref().map_or("", |phase| phase.as_str())));
    if let Some(policy) = &backup.spec.resource_policy {
        output.insert("resourcePolicies".into(), json!({ "type": policy.kind, "name": policy.name }));
    }
    let global =
        metadata.annotations.as_ref().and_then(|all| all.get(annotations::GLOBAL_BACKUP_VOLUME_POLICY_CONFIG_MAP));
    if let Some(name) = global.filter(|name| !name.is_empty()) {
        output.insert("globalVolumePolicies".into(), json!({ "type": "configmap", "name": name }));
    }
    if !backup.status.validation_errors.is_empty() {
        output.insert("validationErrors".into(), json!(backup.status.validation_errors));
    }
    insert_results(&mut output, backup, files);
    output.insert("spec".into(), spec(&backup.spec));
    output.insert("status".into(), status(backup, pod_volumes, files, manner));
    if !deletions.is_empty() {
        output.insert("deletionAttempts".into(), deletion_attempts(deletions, manner));
    }
    indented(&Value::Object(output))
}

fn indented(value: &Value) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(format!("{}\n", String::from_utf8_lossy(&bytes)))
}

fn insert_results(output: &mut Map<String, Value>, backup: &Backup, files: &BackupFiles) {
    let status = &backup.status;
    let (errors, warnings) = match &files.results {
        None => return,
        Some(Ok(file)) => {
            let shown = |count: i64, results: &Results| if count > 0 { messages(results) } else { json!({}) };
            (shown(status.errors, &file.errors), shown(status.warnings, &file.warnings))
        }
        Some(Err(FetchError::NotFound)) => (json!({ "count": status.errors }), json!({ "count": status.warnings })),
        Some(Err(error)) => {
            let verb = if matches!(error, FetchError::Unreadable(_)) { "decoding" } else { "getting" };
            (
                json!({ "errorGettingErrors": format!("<error {verb} errors: {error}>") }),
                json!({ "errorGettingWarnings": format!("<error {verb} warnings: {error}>") }),
            )
        }
    };
    output.insert("errors".into(), errors);
    output.insert("warnings".into(), warnings);
}

fn messages(results: &Results) -> Value {
    let namespaces = if results.namespaces.is_empty() { json!([]) } else { json!(results.namespaces) };
    json!({ "velero": results.velero, "cluster": results.cluster, "namespace": namespaces })
}

fn filter(included: &[String], excluded: &[String]) -> Value {
    json!({ "included": joined(included, "*"), "excluded": joined(excluded, NONE) })
}

fn spec(spec: &BackupSpec) -> Value {
    let mut resources = filter(&spec.included_resources, &spec.excluded_resources);
    resources["clusterScoped"] = json!(choice(spec.include_cluster_resources, "excluded", "included", "auto"));
    let mut value = json!({
        "namespaces": filter(&spec.included_namespaces, &spec.excluded_namespaces),
        "resources": resources,
        "labelSelector": selector_text(spec.label_selector.as_ref()),
        "storageLocation": spec.storage_location,
        "veleroNativeSnapshotPVs": choice(spec.snapshot_volumes, "false", "true", "auto"),
        "veleroSnapshotMoveData": choice(spec.snapshot_move_data, "false", "true", "auto"),
        "dataMover": if spec.data_mover.is_empty() { NONE } else { &spec.data_mover },
        "TTL": spec.ttl,
        "CSISnapshotTimeout": spec.csi_snapshot_timeout,
    });
    if !spec.hooks.resources.is_empty() {
        let hooks: Map<String, Value> =
            spec.hooks.resources.iter().map(|hook| (hook.name.clone(), hook_group(hook))).collect();
        value["hooks"] = json!({ "resources": hooks });
    }
    if !spec.ordered_resources.is_empty() {
        value["orderedResources"] = json!(spec.ordered_resources);
    }
    value
}

fn hook_group(group: &BackupResourceHookSpec) -> Value {
    let hook = |hook: &BackupResourceHook| {
        json!({
            "container": hook.exec.container,
            "command": hook.exec.command.join(" "),
            "onError:": hook.exec.on_error.as_ref().map_or("", |mode| mode.as_str()),
            "timeout": hook.exec.timeout,
        })
    };
    json!({
        "namespaces": filter(&group.included_namespaces, &group.excluded_namespaces),
        "resources": filter(&group.included_resources, &group.excluded_resources),
        "labelSelector": selector_text(group.label_selector.as_ref()),
        "preExecHook": group.pre_hooks.iter().map(hook).collect::<Vec<_>>(),
        "postExecHook": group.post_hooks.iter().map(hook).collect::<Vec<_>>(),
    })
}

fn status(backup: &Backup, pod_volumes: &[PodVolumeBackup], files: &BackupFiles, manner: &Manner) -> Value {
    let status = &backup.status;
    let mut value = json!({
        "backupFormatVersion": status.format_version,
        "started": manner.clock.text_or(status.start_timestamp.as_ref(), "<n/a>"),
        "completed": manner.clock.text_or(status.completion_timestamp.as_ref(), "<n/a>"),
        "expiration": manner.clock.text_or(status.expiration.as_ref(), "<nil>"),
    });
    if let Some(progress) = &status.progress {
        let (total, done) = match status.phase().stage() == Stage::InProgress {
            true => ("estimatedTotalItemsToBeBackedUp", "itemsBackedUpSoFar"),
            false => ("totalItemsToBeBackedUp", "itemsBackedUp"),
        };
        value[total] = json!(progress.total_items);
        value[done] = json!(progress.items_backed_up);
    }
    match &files.resource_list {
        None => {}
        Some(Ok(list)) => value["resourceList"] = json!(list),
        Some(Err(FetchError::NotFound)) => {
            value["errorGettingResourceList"] = json!("<backup resource list not found>")
        }
        Some(Err(error)) => {
            let verb = if matches!(error, FetchError::Unreadable(_)) { "reading" } else { "getting" };
            value["errorGettingResourceList"] = json!(format!("<error {verb} backup resource list: {error}>"));
        }
    }
    // What cannot be fetched is left out.
    if let Ok(volumes) = Volumes::gather(files) {
        value["backupVolumes"] = backup_volumes(&volumes, pod_volumes, manner);
    }
    if let Some(hooks) = &status.hook_status {
        value["hooksAttempted"] = json!(hooks.hooks_attempted);
        value["hooksFailed"] = json!(hooks.hooks_failed);
    }
    value
}

fn backup_volumes(volumes: &Volumes, pod_volumes: &[PodVolumeBackup], manner: &Manner) -> Value {
    let named = |infos: &[BackupVolumeInfo],
                 empty: &str,
                 name: fn(&BackupVolumeInfo) -> String,
                 show: fn(&BackupVolumeInfo, bool) -> Value| {
        if infos.is_empty() {
            return json!(empty);
        }
        infos.iter().map(|info| (name(info), show(info, manner.details))).collect::<Map<_, _>>().into()
    };
    json!({
        "nativeSnapshots": named(&volumes.native, "<none included>", |info| info.pv_name.clone(), native_snapshot),
        "csiSnapshots": named(
            &volumes.csi,
            volumes.no_csi_text(),
            |info| format!("{}/{}", info.pvc_namespace, info.pvc_name),
            csi_snapshot,
        ),
        "podVolumeBackups": pod_volume_backups(pod_volumes, manner.details),
    })
}

fn native_snapshot(info: &BackupVolumeInfo, details: bool) -> Value {
    if !details {
        return json!("specify --details for more information");
    }
    let native = info.native_snapshot_info.clone().unwrap_or_default();
    json!({
        "snapshotID": native.snapshot_handle,
        "type": native.volume_type,
        "availabilityZone": native.volume_az,
        "IOPS": native.iops,
        "result": result_text(info),
    })
}

fn csi_snapshot(info: &BackupVolumeInfo, details: bool) -> Value {
    const INCLUDED: &str = "included, specify --details for more information";
    let mut value = json!({});
    if info.preserve_local_snapshot {
        value["snapshot"] = if details { local_snapshot(info) } else { json!(INCLUDED) };
    }
    if info.snapshot_data_moved {
        value["dataMovement"] = if details { data_movement(info) } else { json!(INCLUDED) };
    }
    value
}

fn local_snapshot(info: &BackupVolumeInfo) -> Value {
    let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
    let mut value = json!({
        "snapshotContentName": snapshot.vsc_name,
        "storageSnapshotID": snapshot.snapshot_handle,
        "snapshotSize(bytes)": snapshot.size,
        "csiDriver": snapshot.driver,
        "result": result_text(info),
    });
    if !info.snapshot_data_moved {
        value["operationID"] = json!(snapshot.operation_id);
    }
    value
}

fn data_movement(info: &BackupVolumeInfo) -> Value {
    let movement = info.snapshot_data_movement_info.clone().unwrap_or_default();
    let mut value = json!({
        "operationID": movement.operation_id,
        "dataMover": data_mover(&movement.data_mover),
        "uploaderType": movement.uploader_type,
        "result": result_text(info),
    });
    if movement.size > 0 || movement.incremental_size > 0 {
        value["size"] = json!(movement.size);
        value["incrementalSize"] = json!(movement.incremental_size);
    }
    value
}

fn pod_volume_backups(backups: &[PodVolumeBackup], details: bool) -> Value {
    let Some(first) = backups.first() else {
        return json!("<none included>");
    };
    let groups: Map<String, Value> = backups_by_phase(backups, None)
        .into_iter()
        .map(|(phase, count, pods)| {
            let pods: Vec<Value> = pods.into_iter().map(|(pod, volumes)| json!({ pod: volumes.join(", ") })).collect();
            (phase_text(&phase).to_owned(), if details { json!(pods) } else { json!(count) })
        })
        .collect();
    json!({ "uploderType": first.spec.uploader_type, "podVolumeBackupsDetails": groups })
}

fn deletion_attempts(deletions: &[DeleteBackupRequest], manner: &Manner) -> Value {
    let requests: Vec<Value> = deletions
        .iter()
        .map(|request| {
            let mut value = json!({
                "creationTimestamp": manner.clock.text_or(request.metadata.creation_timestamp.as_ref(), "<nil>"),
                "phase": request.status.phase.as_ref().map_or("", |phase| phase.as_str()),
            });
            if !request.status.errors.is_empty() {
                value["errors"] = json!(request.status.errors);
            }
            value
        })
        .collect();
    let mut value = json!({ "deleteBackupRequests": requests });
    let failed = failed_deletions(deletions);
    if failed > 0 {
        value["failed"] = json!(failed);
    }
    value
}
