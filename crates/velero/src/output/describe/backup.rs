//! A backup.

use velero_api::annotations;
use velero_api::metadata;
use velero_api::v1::{
    Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestPhase, Ending, PodVolumeBackup, Stage,
};
use velero_rules::cancellation;

use super::backup_spec::describe_spec;
use super::describer::Describer;
use super::files::FetchError;
use super::operations::describe_backup_operations;
use super::pod_volumes::describe_pod_volume_backups;
use super::results::{describe_counts, describe_resource_list, describe_results};
use super::volumes::describe_volumes;
use super::{BackupFiles, Manner};

/// Describes a backup, its deletion attempts and the backups of pod volumes that belong to it.
pub(crate) fn describe_backup(
    backup: &Backup,
    deletions: &[DeleteBackupRequest],
    pod_volumes: &[PodVolumeBackup],
    files: &BackupFiles,
    manner: &Manner,
) -> String {
    let mut describer = Describer::new(manner);
    describer.metadata(backup);
    describer.gap();
    describe_phase(&mut describer, backup);
    describe_references(&mut describer, backup);
    describer.validation_errors(&backup.status.validation_errors);
    describer.gap();
    describe_messages(&mut describer, backup, files);
    describer.gap();
    describe_spec(&mut describer, &backup.spec);
    describer.gap();
    describe_status(&mut describer, backup, files, pod_volumes);
    if !deletions.is_empty() {
        describer.gap();
        describe_deletions(&mut describer, deletions);
    }
    describer.finish()
}

fn describe_phase(describer: &mut Describer<'_>, backup: &Backup) {
    let phase = backup.status.phase();
    let style = describer.manner.style;
    let shown = style.ending(phase.ending(), phase.as_str());
    let hint = match phase.ending().is_some_and(Ending::has_errors_in_log) {
        true => {
            let name = metadata::name(backup);
            format!(" (run `velero backup logs {name}` for more information)")
        }
        false => String::new(),
    };
    describer.field("Phase", format_args!("{shown}{hint}"));
    // The original has no line for reasons; what a person asked for it does not know either.
    let reason = &backup.status.failure_reason;
    if cancellation::is_reason(reason) {
        describer.field("Failure reason", style.red(reason));
    }
    if *phase == BackupPhase::Queued {
        describer.field("Queue position", backup.status.queue_position);
    }
}

/// Describes the ConfigMaps and the uploader settings the backup names.
fn describe_references(describer: &mut Describer<'_>, backup: &Backup) {
    if let Some(policy) = &backup.spec.resource_policy {
        describer.gap();
        describe_config_map(describer, "Resource policies", &policy.kind, &policy.name);
    }
    let annotations = backup.metadata.annotations.as_ref();
    let global = annotations.and_then(|all| all.get(annotations::GLOBAL_BACKUP_VOLUME_POLICY_CONFIG_MAP));
    if let Some(name) = global.filter(|name| !name.is_empty()) {
        describer.gap();
        describe_config_map(describer, "Global volume policies", "configmap", name);
    }
    describe_uploader(describer, backup.spec.uploader_config.as_ref().map(|config| config.parallel_files_upload));
}

/// Describes a reference to a ConfigMap.
pub(super) fn describe_config_map(describer: &mut Describer<'_>, heading: &str, kind: &str, name: &str) {
    describer.line(format_args!("{heading}:"));
    describer.field("\tType", kind);
    describer.field("\tName", name);
}

/// Describes how many files are uploaded at once, when the backup says.
pub(super) fn describe_uploader(describer: &mut Describer<'_>, parallel_files: Option<i64>) {
    if let Some(count) = parallel_files.filter(|count| *count > 0) {
        describer.gap();
        describer.line("Uploader config:");
        describer.field("\tParallel files upload", count);
    }
}

fn describe_messages(describer: &mut Describer<'_>, backup: &Backup, files: &BackupFiles) {
    let status = &backup.status;
    match &files.results {
        // Backups of old versions have no such file, only the numbers.
        Some(Err(FetchError::NotFound)) => describe_counts(describer, status.errors, status.warnings),
        Some(results) => describe_results(describer, results, status.errors, status.warnings),
        None => {}
    }
}

fn describe_status(
    describer: &mut Describer<'_>,
    backup: &Backup,
    files: &BackupFiles,
    pod_volumes: &[PodVolumeBackup],
) {
    let status = &backup.status;
    let clock = describer.manner.clock.clone();
    describer.field("Backup Format Version", &status.format_version);
    describer.gap();
    describer.field("Started", clock.text_or(status.start_timestamp.as_ref(), "<n/a>"));
    describer.field("Completed", clock.text_or(status.completion_timestamp.as_ref(), "<n/a>"));
    describer.gap();
    describer.field("Expiration", clock.text_or(status.expiration.as_ref(), "<nil>"));
    describer.gap();
    if let Some(progress) = &status.progress {
        let (total, done) = match status.phase().stage() == Stage::InProgress {
            true => ("Estimated total items to be backed up", "Items backed up so far"),
            false => ("Total items to be backed up", "Items backed up"),
        };
        describer.field(total, progress.total_items);
        describer.field(done, progress.items_backed_up);
        describer.gap();
    }
    describe_backup_operations(describer, status, files.operations.as_ref());
    if let Some(list) = &files.resource_list {
        describe_resource_list(describer, "backup", list);
        describer.gap();
    }
    describer.line("Backup Volumes:");
    if describe_volumes(describer, files) {
        describer.gap();
        describe_pod_volume_backups(describer, pod_volumes);
    }
    if let Some(hooks) = &status.hook_status {
        describer.gap();
        describer.field("HooksAttempted", hooks.hooks_attempted);
        describer.field("HooksFailed", hooks.hooks_failed);
    }
}

/// How many attempts to delete the backup ended with errors.
pub(super) fn failed_deletions(deletions: &[DeleteBackupRequest]) -> usize {
    let failed = |request: &&DeleteBackupRequest| {
        request.status.phase == Some(DeleteBackupRequestPhase::Processed) && !request.status.errors.is_empty()
    };
    deletions.iter().filter(failed).count()
}

fn describe_deletions(describer: &mut Describer<'_>, deletions: &[DeleteBackupRequest]) {
    let failed = failed_deletions(deletions);
    let count = if failed > 0 { format!(" ({failed} failed)") } else { String::new() };
    describer.line(format_args!("Deletion Attempts{count}:"));
    for (position, request) in deletions.iter().enumerate() {
        if position > 0 {
            describer.gap();
        }
        let time = describer.manner.clock.text_or(request.metadata.creation_timestamp.as_ref(), "<nil>");
        let phase = request.status.phase.as_ref().map_or("", |phase| phase.as_str());
        describer.line(format_args!("\t{time}: {phase}"));
        if !request.status.errors.is_empty() {
            describer.line("\tErrors:");
            for error in &request.status.errors {
                describer.line(format_args!("\t\t{error}"));
            }
        }
    }
}
