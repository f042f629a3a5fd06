//! A restore.

use velero_api::metadata;
use velero_api::records::{RestoreVolumeInfo, VolumeMethod};
use velero_api::v1::{Ending, PodVolumeRestore, Restore, RestoreSpec, RestoreStatus, Stage};

use super::backup::describe_config_map;
use super::describer::{Describer, NONE, choice};
use super::files::{FetchError, Fetched};
use super::operations::describe_restore_operations;
use super::pod_volumes::describe_pod_volume_restores;
use super::results::{describe_resource_list, describe_results};
use super::{Manner, RestoreFiles};
use crate::output::Clock;

/// Describes a restore and the pod volumes it restored.
pub(crate) fn describe_restore(
    restore: &Restore,
    pod_volumes: &[PodVolumeRestore],
    files: &RestoreFiles,
    manner: &Manner,
) -> String {
    let mut describer = Describer::new(manner);
    let (spec, status) = (&restore.spec, &restore.status);
    describer.metadata(restore);
    describer.gap();
    describe_phase(&mut describer, restore);
    describer.gap();
    describer.field("Started", manner.clock.text_or(status.start_timestamp.as_ref(), "<n/a>"));
    describer.field("Completed", manner.clock.text_or(status.completion_timestamp.as_ref(), "<n/a>"));
    describer.validation_errors(&status.validation_errors);
    if let Some(results) = &files.results {
        describe_results(&mut describer, results, status.errors, status.warnings);
    }
    describe_selection(&mut describer, spec);
    describe_pod_volume_restores(&mut describer, pod_volumes);
    describe_volume_infos(&mut describer, files.volume_infos.as_ref());
    describe_behaviour(&mut describer, spec);
    describer.gap();
    describe_restore_operations(&mut describer, status, files.operations.as_ref());
    if let Some(hooks) = &status.hook_status {
        describer.gap();
        // A space stands before the tab, there and below, as it always did.
        describer.line(format_args!("HooksAttempted: \t{}", hooks.hooks_attempted));
        describer.line(format_args!("HooksFailed: \t{}", hooks.hooks_failed));
    }
    if let Some(list) = &files.resource_list {
        describer.gap();
        describe_resource_list(&mut describer, "restore", list);
    }
    describer.finish()
}

fn describe_phase(describer: &mut Describer<'_>, restore: &Restore) {
    let phase = restore.status.phase();
    let deleting = if restore.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
    let text = format!("{phase}{deleting}");
    let style = describer.manner.style;
    let shown = style.ending(phase.ending(), &text);
    let hint = match phase.ending().is_some_and(Ending::has_errors_in_log) {
        true => {
            let name = metadata::name(restore);
            format!(" (run 'velero restore logs {name}' for more information)")
        }
        false => String::new(),
    };
    describer.field("Phase", format_args!("{shown}{hint}"));
    if let Some(progress) = &restore.status.progress {
        let (total, done) = match phase.stage() == Stage::InProgress {
            true => ("Estimated total items to be restored", "Items restored so far"),
            false => ("Total items to be restored", "Items restored"),
        };
        describer.field(total, progress.total_items);
        describer.field(done, progress.items_restored);
    }
    if let Some(rate) = rate(&restore.status, &describer.manner.clock) {
        describer.field("Restore rate", format_args!("{rate} items/s"));
    }
    if !restore.status.failure_reason.is_empty() {
        let reason = style.red(&restore.status.failure_reason);
        describer.field("Failure reason", reason);
    }
}

/// Items a second from the start to the end, or to now.
fn rate(status: &RestoreStatus, clock: &Clock) -> Option<i64> {
    let items = status.progress.as_ref()?.items_restored;
    let begun = status.start_timestamp.as_ref()?.0;
    let ended = status.completion_timestamp.as_ref().map_or(clock.now(), |time| time.0);
    // Objects hold whole seconds, so that a short restore may seem to have taken no time.
    Some(items / ended.duration_since(begun).as_secs().max(1))
}

fn describe_selection(describer: &mut Describer<'_>, spec: &RestoreSpec) {
    const ALL: &str = "all namespaces found in the backup";
    describer.gap();
    describer.field("Backup", &spec.backup_name);
    describer.gap();
    describer.line("Namespaces:");
    let star = [String::from("*")];
    let included = if spec.included_namespaces == star { &[][..] } else { &spec.included_namespaces };
    describer.filter("\t", included, ALL, &spec.excluded_namespaces);
    describer.gap();
    describer.line("Resources:");
    describer.filter("\t", &spec.included_resources, "*", &spec.excluded_resources);
    describer.field("\tCluster-scoped", choice(spec.include_cluster_resources, "excluded", "included", "auto"));
    describer.gap();
    describer.map("Namespace mappings", &spec.namespace_mapping);
    describer.gap();
    describer.selectors(spec.label_selector.as_ref(), &spec.or_label_selectors);
    describer.gap();
    describer.field("Restore PVs", choice(spec.restore_pvs, "false", "true", "auto"));
}

fn describe_behaviour(describer: &mut Describer<'_>, spec: &RestoreSpec) {
    describer.gap();
    let policy = spec.existing_resource_policy.as_ref().map_or(NONE, |policy| policy.as_str());
    describer.line(format_args!("Existing Resource Policy: \t{policy}"));
    describer.field("ItemOperationTimeout", spec.item_operation_timeout);
    describer.gap();
    describer.field("Preserve Service NodePorts", choice(spec.preserve_node_ports, "false", "true", "auto"));
    let references = [("Resource modifier", &spec.resource_modifier), ("Resource policies", &spec.resource_policy)];
    for (heading, reference) in references {
        if let Some(reference) = reference {
            describer.gap();
            describe_config_map(describer, heading, &reference.kind, &reference.name);
        }
    }
    if spec.skip_default_resource_modifier == Some(true) {
        describer.field("Skip Default Resource Modifier", true);
    }
    if let Some(uploader) = &spec.uploader_config {
        describer.gap();
        describer.line("Uploader config:");
        if uploader.write_sparse_files == Some(true) {
            describer.field("\tWrite Sparse Files", true);
        }
        if uploader.parallel_files_download > 0 {
            describer.field("\tParallel Restore", uploader.parallel_files_download);
        }
    }
}

fn describe_volume_infos(describer: &mut Describer<'_>, infos: Option<&Fetched<Vec<RestoreVolumeInfo>>>) {
    let infos = match infos {
        Some(Ok(infos)) => infos,
        Some(Err(FetchError::Failed(error))) => {
            return describer.line(format_args!("\t<error getting restore volume info: {error}>"));
        }
        Some(Err(FetchError::Unreadable(error))) => {
            return describer.line(format_args!("\t<error reading restore volume info: {error}>"));
        }
        // Restores of old versions have no such file.
        Some(Err(FetchError::NotFound)) | None => return,
    };
    describer.gap();
    let csi: Vec<_> = infos.iter().filter(|info| info.restore_method == Some(VolumeMethod::CsiSnapshot)).collect();
    if csi.is_empty() {
        return describer.line("CSI Snapshot Restores: <none included>");
    }
    describer.line("CSI Snapshot Restores:");
    for info in csi.iter().filter(|info| !info.snapshot_data_moved) {
        describer.line(format_args!("\t{}/{}:", info.pvc_namespace, info.pvc_name));
        describe_snapshot(describer, info);
    }
    for info in csi.iter().filter(|info| info.snapshot_data_moved) {
        describer.line(format_args!("\t{}/{}:", info.pvc_namespace, info.pvc_name));
        describe_movement(describer, info);
    }
}

fn describe_snapshot(describer: &mut Describer<'_>, info: &RestoreVolumeInfo) {
    if !describer.manner.details {
        return describer.line("\t\tSnapshot: specify --details for more information");
    }
    let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
    describer.line("\t\tSnapshot:");
    describer.line(format_args!("\t\t\tSnapshot Content Name: {}", snapshot.vsc_name));
    describer.line(format_args!("\t\t\tStorage Snapshot ID: {}", snapshot.snapshot_handle));
    describer.line(format_args!("\t\t\tCSI Driver: {}", snapshot.driver));
}

fn describe_movement(describer: &mut Describer<'_>, info: &RestoreVolumeInfo) {
    if !describer.manner.details {
        return describer.line("\t\tData Movement: specify --details for more information");
    }
    let movement = info.snapshot_data_movement_info.clone().unwrap_or_default();
    describer.line("\t\tData Movement:");
    describer.line(format_args!("\t\t\tOperation ID: {}", movement.operation_id));
    describer.line(format_args!("\t\t\tData Mover: {}", movement.data_mover));
    describer.line(format_args!("\t\t\tUploader Type: {}", movement.uploader_type));
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use velero_api::v1::RestoreProgress;

    use super::*;

    #[test]
    fn the_rate_counts_whole_seconds_and_needs_a_start() {
        let clock = Clock::system();
        let time = |text: &str| Some(Time(text.parse().unwrap()));
        let progress = RestoreProgress { total_items: 12, items_restored: 12, ..Default::default() };
        let mut status = RestoreStatus { progress: Some(progress), ..Default::default() };
        assert_eq!(rate(&status, &clock), None);
        status.start_timestamp = time("2026-01-02T03:04:05Z");
        status.completion_timestamp = time("2026-01-02T03:04:09Z");
        assert_eq!(rate(&status, &clock), Some(3));
        status.completion_timestamp = status.start_timestamp.clone();
        assert_eq!(rate(&status, &clock), Some(12));
    }
}
