//! `velero restore create`

use anyhow::{Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use kube::api::PostParams;
use velero_api::labels;
use velero_api::metadata;
use velero_api::v1::{
    Backup, ExistingResourcePolicy, Restore, RestoreSpec, RestoreStatusSpec, UploaderConfigForRestore,
};

use super::{preview, resume};
use crate::arguments::values::{StringList, merged};
use crate::arguments::{RestoreCreateArguments, WaitArguments};
use crate::commands::wait::{End, Operations, Progress, wait};
use crate::output::{Clock, Format, print_instead_of_create};
use crate::session::{Session, api_error};

/// Creates a restore, or shows it, and waits for its end if told to.
pub(crate) async fn create(session: &Session, arguments: RestoreCreateArguments) -> Result<()> {
    let restore = match &arguments.resume {
        Some(resumed) => {
            Format::parse(arguments.output.output.as_deref())?;
            resume::resuming(session, resumed, &arguments).await?
        }
        None => {
            validate(&arguments)?;
            let source = find_source(session, &arguments).await?;
            build(session.namespace(), &arguments, source)?
        }
    };
    if arguments.dry_run {
        return preview::show(session, &restore, &arguments.output).await;
    }
    if print_instead_of_create(session.printer, &restore, &arguments.output)? {
        return Ok(());
    }
    arguments.waiting.check()?;
    submit(session, &restore, &arguments.waiting).await
}

fn validate(arguments: &RestoreCreateArguments) -> Result<()> {
    ensure!(
        arguments.from_backup.is_empty() != arguments.from_schedule.is_empty(),
        "either a backup or schedule must be specified, but not both"
    );
    Format::parse(arguments.output.output.as_deref())?;
    if arguments.selector.is_some() && arguments.or_selector.is_some() {
        bail!("either a 'selector' or an 'or-selector' can be specified, but not both");
    }
    existing_resource_policy(&arguments.existing_resource_policy)?;
    ensure!(arguments.parallel_files_download >= 0, "parallel-files-download cannot be negative");
    Ok(())
}

fn existing_resource_policy(text: &str) -> Result<Option<ExistingResourcePolicy>> {
    if text.is_empty() {
        return Ok(None);
    }
    let policy = text
        .parse()
        .map_err(|_| anyhow!("existing-resource-policy has invalid value, it accepts only none, update as value"))?;
    Ok(Some(policy))
}

/// What is restored: a backup, or whatever is the latest one of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Backup(String),
    Schedule(String),
}

async fn find_source(session: &Session, arguments: &RestoreCreateArguments) -> Result<Source> {
    if arguments.from_schedule.is_empty() {
        session.get::<Backup>(&arguments.from_backup).await?;
        return Ok(Source::Backup(arguments.from_backup.clone()));
    }
    let schedule = &arguments.from_schedule;
    let backups = session.list::<Backup>(&format!("{}={schedule}", labels::SCHEDULE_NAME)).await?.items;
    ensure!(!backups.is_empty(), "No backups found for the schedule {schedule}");
    // The server only considers completed backups of a schedule, so others must be named here.
    let newest = (arguments.allow_partially_failed.0 == Some(true)).then(|| newest_restorable(&backups)).flatten();
    Ok(newest
        .map_or_else(|| Source::Schedule(schedule.clone()), |backup| Source::Backup(metadata::name(backup).to_owned())))
}

fn newest_restorable(backups: &[Backup]) -> Option<&Backup> {
    let restorable = backups.iter().filter(|backup| backup.status.phase().is_restorable());
    restorable.max_by_key(|backup| backup.status.start_timestamp.as_ref().map(|time| time.0))
}

fn list(value: Option<&StringList>) -> Vec<String> {
    value.map(|list| list.0.clone()).unwrap_or_default()
}

fn config_map(name: &str, api_group: Option<&str>) -> Option<TypedLocalObjectReference> {
    let kind = "configmap".to_owned();
    (!name.is_empty()).then(|| TypedLocalObjectReference {
        api_group: api_group.map(str::to_owned),
        kind,
        name: name.to_owned(),
    })
}

fn build(namespace: &str, arguments: &RestoreCreateArguments, source: Source) -> Result<Restore> {
    let named = if arguments.from_schedule.is_empty() { &arguments.from_backup } else { &arguments.from_schedule };
    let generated = || format!("{named}-{}", Clock::system().digits());
    let name = arguments.name.clone().unwrap_or_else(generated);
    let (backup_name, schedule_name) = match source {
        Source::Backup(backup) => (backup, String::new()),
        Source::Schedule(schedule) => (String::new(), schedule),
    };
    let status_resources = arguments.status_include_resources.as_ref().map(|included| RestoreStatusSpec {
        included_resources: included.0.clone(),
        excluded_resources: list(arguments.status_exclude_resources.as_ref()),
        ..RestoreStatusSpec::default()
    });
    let spec = RestoreSpec {
        backup_name,
        schedule_name,
        included_namespaces: arguments.include_namespaces.0.clone(),
        excluded_namespaces: list(arguments.exclude_namespaces.as_ref()),
        included_resources: list(arguments.include_resources.as_ref()),
        excluded_resources: list(arguments.exclude_resources.as_ref()),
        namespace_mapping: arguments.namespace_mappings.iter().flat_map(|mappings| mappings.0.clone()).collect(),
        label_selector: arguments.selector.clone(),
        or_label_selectors: arguments.or_selector.clone().map(|selectors| selectors.0).unwrap_or_default(),
        restore_pvs: arguments.restore_volumes.0,
        restore_status: status_resources,
        preserve_node_ports: arguments.preserve_nodeports.0,
        include_cluster_resources: arguments.include_cluster_resources.0,
        existing_resource_policy: existing_resource_policy(&arguments.existing_resource_policy)?,
        item_operation_timeout: arguments.item_operation_timeout,
        resource_modifier: config_map(&arguments.resource_modifier_configmap, Some("")),
        skip_default_resource_modifier: arguments.skip_default_resource_modifier.then_some(true),
        resource_policy: config_map(&arguments.resource_policies_configmap, None),
        uploader_config: Some(UploaderConfigForRestore {
            write_sparse_files: arguments.write_sparse_files.0,
            parallel_files_download: arguments.parallel_files_download,
            ..UploaderConfigForRestore::default()
        }),
        ..RestoreSpec::default()
    };
    let mut restore = Restore::new(namespace, &name, spec);
    restore.metadata.labels = Some(merged(&arguments.labels)).filter(|labels| !labels.is_empty());
    restore.metadata.annotations = Some(merged(&arguments.annotations)).filter(|annotations| !annotations.is_empty());
    Ok(restore)
}

async fn submit(session: &Session, restore: &Restore, waiting: &WaitArguments) -> Result<()> {
    let printer = session.printer;
    let name = metadata::name(restore);
    ensure_understood(session, restore).await?;
    session.create(restore).await?;
    printer.line(format_args!("Restore request {name:?} submitted successfully."))?;
    if !waiting.wait {
        return printer.line(format_args!(
            "Run `velero restore describe {name}` or `velero restore logs {name}` for more details."
        ));
    }
    printer.line(
        "Waiting for restore to complete. You may safely press ctrl-c to stop waiting - your restore will continue in the background.",
    )?;
    let ended = wait::<Restore>(session, name, progress).await?;
    End::of_restore(session, &ended).await.tell(session, waiting.exit_status).await
}

/// Refuses a wish that the definition in the cluster does not know, which the API server would drop in silence: that of Velero
/// 1.18 may be installed.
async fn ensure_understood(session: &Session, restore: &Restore) -> Result<()> {
    if restore.spec.skip_default_resource_modifier.is_none() {
        return Ok(());
    }
    let trial = PostParams { dry_run: true, ..PostParams::default() };
    let understood = session.api::<Restore>().create(&trial, restore).await.map_err(api_error)?;
    ensure!(
        understood.spec.skip_default_resource_modifier == restore.spec.skip_default_resource_modifier,
        "the definition of restores in this cluster does not know spec.skipDefaultResourceModifier, which would be lost; \
         `velero install --crds-only` brings the definitions up to date"
    );
    Ok(())
}

fn progress(restore: &Restore) -> Progress {
    let progress = restore.status.progress.clone().unwrap_or_default();
    Progress {
        phase: restore.status.phase().to_string(),
        ended: restore.status.phase().is_terminal(),
        done: progress.items_restored.try_into().unwrap_or_default(),
        total: progress.total_items.try_into().unwrap_or_default(),
        queue_position: None,
        operations: Operations::waited_for(
            restore.status.restore_item_operations_attempted,
            restore.status.restore_item_operations_completed,
            restore.status.restore_item_operations_failed,
        ),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use velero_api::v1::{BackupPhase, BackupSpec};

    use super::*;

    #[test]
    fn the_newest_backup_that_can_be_restored_is_taken() {
        let backup = |name: &str, phase: BackupPhase, started: &str| {
            let mut backup = Backup::new("velero", name, BackupSpec::default());
            backup.status.phase = Some(phase);
            backup.status.start_timestamp = Some(Time(started.parse().unwrap()));
            backup
        };
        let backups = [
            backup("old", BackupPhase::Completed, "2026-01-01T00:00:00Z"),
            backup("newer", BackupPhase::PartiallyFailed, "2026-01-02T00:00:00Z"),
            backup("failed", BackupPhase::Failed, "2026-01-03T00:00:00Z"),
        ];
        assert_eq!(newest_restorable(&backups).map(metadata::name), Some("newer"));
        assert_eq!(newest_restorable(&backups[2..]), None);
    }
}
