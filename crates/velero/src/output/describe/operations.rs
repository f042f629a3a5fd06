//! Asynchronous operations.

use velero_api::records::{BackupOperation, OperationStatus, ResourceIdentifier, RestoreOperation};
use velero_api::v1::{BackupStatus, RestoreStatus};

use super::describer::Describer;
use super::files::{FetchError, Fetched};

/// Describes the operations of a backup: their number, or each of them when the file was asked for.
pub(super) fn describe_backup_operations(
    describer: &mut Describer<'_>,
    status: &BackupStatus,
    file: Option<&Fetched<Vec<BackupOperation>>>,
) {
    let counts = Counts {
        attempted: status.backup_item_operations_attempted,
        completed: status.backup_item_operations_completed,
        failed: status.backup_item_operations_failed,
    };
    describe_operations(describer, "Backup", &counts, file, |describer, operation| {
        let spec = &operation.spec;
        describe_target(describer, &spec.resource_identifier);
        describer.field("\t\tBackup Item Action Plugin", &spec.backup_item_action);
        describer.field("\t\tOperation ID", &spec.operation_id);
        if !spec.post_operation_items.is_empty() {
            describer.line("\t\tItems to Update:");
        }
        for item in &spec.post_operation_items {
            describer.line(format_args!("\t\t\t{} {}/{}", item.group_resource(), item.namespace, item.name));
        }
        describe_progress(describer, &operation.status);
    });
}

/// Describes the operations of a restore.
pub(super) fn describe_restore_operations(
    describer: &mut Describer<'_>,
    status: &RestoreStatus,
    file: Option<&Fetched<Vec<RestoreOperation>>>,
) {
    let counts = Counts {
        attempted: status.restore_item_operations_attempted,
        completed: status.restore_item_operations_completed,
        failed: status.restore_item_operations_failed,
    };
    describe_operations(describer, "Restore", &counts, file, |describer, operation| {
        let spec = &operation.spec;
        describe_target(describer, &spec.resource_identifier);
        describer.field("\t\tRestore Item Action Plugin", &spec.restore_item_action);
        describer.field("\t\tOperation ID", &spec.operation_id);
        describe_progress(describer, &operation.status);
    });
}

struct Counts {
    attempted: i64,
    completed: i64,
    failed: i64,
}

fn describe_operations<T>(
    describer: &mut Describer<'_>,
    owner: &str,
    counts: &Counts,
    file: Option<&Fetched<Vec<T>>>,
    describe: impl Fn(&mut Describer<'_>, &T),
) {
    let Counts { attempted, completed, failed } = counts;
    let heading = format!("{owner} Item Operations");
    match file {
        _ if *attempted == 0 => {}
        None => {
            let summary = format!("{completed} of {attempted} completed successfully, {failed} failed");
            describer.field(&heading, format_args!("{summary} (specify --details for more information)"));
        }
        Some(Ok(operations)) => {
            describer.line(format_args!("{heading}:"));
            operations.iter().for_each(|operation| describe(describer, operation));
        }
        Some(Err(FetchError::Unreadable(error))) => {
            describer.field(&heading, format_args!("<error reading operation info: {error}>"));
        }
        Some(Err(error)) => describer.field(&heading, format_args!("<error getting operation info: {error}>")),
    }
}

fn describe_target(describer: &mut Describer<'_>, item: &ResourceIdentifier) {
    describer.line(format_args!("\tOperation for {} {}/{}:", item.group_resource(), item.namespace, item.name));
}

fn describe_progress(describer: &mut Describer<'_>, status: &OperationStatus) {
    describer.field("\t\tPhase", status.phase.as_ref().map_or("", |phase| phase.as_str()));
    if !status.error.is_empty() {
        describer.field("\t\tOperation Error", &status.error);
    }
    if status.n_total > 0 || status.n_completed > 0 {
        let OperationStatus { n_completed, n_total, operation_units, .. } = status;
        describer.field("\t\tProgress", format_args!("{n_completed} of {n_total} complete ({operation_units})"));
    }
    if !status.description.is_empty() {
        describer.field("\t\tProgress description", &status.description);
    }
    let times = [("Created", &status.created), ("Started", &status.started), ("Updated", &status.updated)];
    for (name, time) in times {
        if let Some(time) = time {
            let text = describer.manner.clock.text(time);
            describer.field(&format!("\t\t{name}"), text);
        }
    }
}
