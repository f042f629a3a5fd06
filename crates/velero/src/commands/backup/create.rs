//! `velero backup create`

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use velero_api::annotations::RETRY_INTERRUPTED;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, Schedule, UploaderConfigForBackup, VolumeSnapshotLocation,
};
use velero_rules::includes_excludes::validate_namespace_includes_excludes;
use velero_rules::ordering::parse_ordered_resources;
use velero_rules::schedule::{backup_annotations, backup_labels};

use crate::arguments::values::{StringList, merged};
use crate::arguments::{BackupContent, BackupCreateArguments, WaitArguments};
use crate::commands::select::aggregate;
use crate::commands::wait::{End, Operations, Progress, wait};
use crate::output::{Clock, Format, print_instead_of_create};
use crate::session::Session;

/// Creates a backup, or shows it, and waits for its end if told to.
pub(crate) async fn create(session: &Session, arguments: BackupCreateArguments) -> Result<()> {
    Format::parse(arguments.output.output.as_deref())?;
    let schedule = arguments.from_schedule.as_deref().map(str::trim);
    ensure!(schedule != Some(""), "flag must have a non-empty value: --from-schedule");
    if schedule.is_none() && arguments.name.is_none() {
        bail!("a backup name is required, unless you are creating based on a schedule");
    }
    validate_content(session, &arguments.content).await?;
    let backup = match schedule {
        Some(schedule) => from_schedule(session.get(schedule).await?, arguments.name.as_deref(), session.namespace()),
        None => {
            let name = arguments.name.as_deref().unwrap_or_default();
            Backup::new(session.namespace(), name, content_spec(&arguments.content)?)
        }
    };
    let mut backup = with_metadata(backup, &arguments.content);
    if arguments.retry_interrupted {
        let annotations = backup.metadata.annotations.get_or_insert_default();
        annotations.insert(RETRY_INTERRUPTED.to_owned(), "true".to_owned());
    }
    if print_instead_of_create(session.printer, &backup, &arguments.output)? {
        return Ok(());
    }
    arguments.waiting.check()?;
    if schedule.is_some() {
        session.printer.line("Creating backup from schedule, all other filters are ignored.")?;
    }
    submit(session, &backup, &arguments.waiting).await
}

async fn submit(session: &Session, backup: &Backup, waiting: &WaitArguments) -> Result<()> {
    let printer = session.printer;
    let name = metadata::name(backup);
    session.create(backup).await?;
    printer.line(format_args!("Backup request {name:?} submitted successfully."))?;
    if !waiting.wait {
        return printer.line(format_args!(
            "Run `velero backup describe {name}` or `velero backup logs {name}` for more details."
        ));
    }
    printer.line(
        "Waiting for backup to complete. You may safely press ctrl-c to stop waiting - your backup will continue in the background.",
    )?;
    let ended = wait::<Backup>(session, name, progress).await?;
    End::of_backup(&ended).tell(session, waiting.exit_status).await
}

fn progress(backup: &Backup) -> Progress {
    let progress = backup.status.progress.clone().unwrap_or_default();
    Progress {
        phase: backup.status.phase().to_string(),
        ended: backup.status.phase().is_terminal(),
        done: progress.items_backed_up.try_into().unwrap_or_default(),
        total: progress.total_items.try_into().unwrap_or_default(),
        queue_position: (*backup.status.phase() == BackupPhase::Queued).then_some(backup.status.queue_position),
        operations: Operations::waited_for(
            backup.status.backup_item_operations_attempted,
            backup.status.backup_item_operations_completed,
            backup.status.backup_item_operations_failed,
        ),
    }
}

/// Refuses what contradicts itself or names locations that do not exist.
pub(crate) async fn validate_content(session: &Session, content: &BackupContent) -> Result<()> {
    if content.selector.is_some() && content.or_selector.is_some() {
        bail!("either a 'selector' or an 'or-selector' can be specified, but not both");
    }
    let excluded = list(content.exclude_namespaces.as_ref());
    let problems = validate_namespace_includes_excludes(&content.include_namespaces.0, &excluded);
    aggregate(&problems.into_iter().map(|problem| anyhow!(problem)).collect::<Vec<_>>())?;
    if uses_old_filters(content) && uses_new_filters(content) {
        bail!(
            "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n\
             include-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and \
             exclude-namespace-scoped-resources are new filter parameters.\nThey cannot be used together"
        );
    }
    if !content.storage_location.is_empty() {
        session.get::<BackupStorageLocation>(&content.storage_location).await?;
    }
    for location in &content.volume_snapshot_locations {
        session.get::<VolumeSnapshotLocation>(location).await?;
    }
    Ok(())
}

fn uses_old_filters(content: &BackupContent) -> bool {
    content.include_resources.is_some()
        || content.exclude_resources.is_some()
        || content.include_cluster_resources.0.is_some()
}

fn uses_new_filters(content: &BackupContent) -> bool {
    let lists = [
        &content.include_cluster_scoped_resources,
        &content.exclude_cluster_scoped_resources,
        &content.include_namespace_scoped_resources,
        &content.exclude_namespace_scoped_resources,
    ];
    lists.into_iter().any(Option::is_some)
}

fn list(value: Option<&StringList>) -> Vec<String> {
    value.map(|list| list.0.clone()).unwrap_or_default()
}

/// What the flags say a backup takes.
pub(crate) fn content_spec(content: &BackupContent) -> Result<BackupSpec> {
    let ordered_resources = match content.ordered_resources.as_str() {
        "" => BTreeMap::new(),
        text => parse_ordered_resources(text)?,
    };
    Ok(BackupSpec {
        included_namespaces: content.include_namespaces.0.clone(),
        excluded_namespaces: list(content.exclude_namespaces.as_ref()),
        included_resources: list(content.include_resources.as_ref()),
        excluded_resources: list(content.exclude_resources.as_ref()),
        included_cluster_scoped_resources: list(content.include_cluster_scoped_resources.as_ref()),
        excluded_cluster_scoped_resources: list(content.exclude_cluster_scoped_resources.as_ref()),
        included_namespace_scoped_resources: list(content.include_namespace_scoped_resources.as_ref()),
        excluded_namespace_scoped_resources: list(content.exclude_namespace_scoped_resources.as_ref()),
        label_selector: content.selector.clone(),
        or_label_selectors: content.or_selector.clone().map(|selectors| selectors.0).unwrap_or_default(),
        snapshot_volumes: content.snapshot_volumes.0,
        ttl: content.ttl,
        include_cluster_resources: content.include_cluster_resources.0,
        storage_location: content.storage_location.clone(),
        volume_snapshot_locations: content.volume_snapshot_locations.clone(),
        default_volumes_to_fs_backup: content.default_volumes_to_fs_backup.0,
        ordered_resources,
        csi_snapshot_timeout: content.csi_snapshot_timeout,
        item_operation_timeout: content.item_operation_timeout,
        resource_policy: config_map(&content.resource_policies_configmap),
        snapshot_move_data: content.snapshot_move_data.0,
        data_mover: content.data_mover.clone(),
        uploader_config: (content.parallel_files_upload > 0).then(|| UploaderConfigForBackup {
            parallel_files_upload: content.parallel_files_upload,
            ..UploaderConfigForBackup::default()
        }),
        ..BackupSpec::default()
    })
}

fn config_map(name: &str) -> Option<TypedLocalObjectReference> {
    let reference =
        |name: &str| TypedLocalObjectReference { api_group: None, kind: "configmap".to_owned(), name: name.to_owned() };
    (!name.is_empty()).then(|| reference(name))
}

/// A backup as the schedule would make it now.
fn from_schedule(schedule: Schedule, name: Option<&str>, namespace: &str) -> Backup {
    let (schedule_name, schedule_uid) = (metadata::name(&schedule).to_owned(), metadata::uid(&schedule).to_owned());
    let generated = || format!("{schedule_name}-{}", Clock::system().in_utc().digits());
    let name = name.map_or_else(generated, str::to_owned);
    let (labels, annotations) = (backup_labels(&schedule), backup_annotations(&schedule));
    let mut backup = Backup::new(namespace, &name, schedule.spec.template);
    backup.metadata.labels = Some(labels);
    backup.metadata.annotations = annotations;
    if schedule.spec.use_owner_references_in_backup == Some(true) {
        backup.metadata.owner_references = Some(vec![OwnerReference {
            api_version: Schedule::api_version_text(),
            kind: Schedule::KIND.to_owned(),
            name: schedule_name,
            uid: schedule_uid,
            controller: Some(true),
            block_owner_deletion: None,
        }]);
    }
    backup
}

/// Adds the labels and annotations of the flags.
fn with_metadata(mut backup: Backup, content: &BackupContent) -> Backup {
    let metadata = &mut backup.metadata;
    for (target, flags) in [(&mut metadata.labels, &content.labels), (&mut metadata.annotations, &content.annotations)]
    {
        let mut all = target.take().unwrap_or_default();
        all.extend(merged(flags));
        *target = (!all.is_empty()).then_some(all);
    }
    backup
}
