//! What a backup takes and how, also as the template of a schedule.

use velero_api::v1::{BackupResourceHook, BackupResourceHookSpec, BackupSpec};
use velero_rules::resource_filter::uses_old_filters;

use super::describer::{Describer, NONE, choice, joined};
use crate::output::tables::selector_text;

/// The data mover that is built in.
const DEFAULT_DATA_MOVER: &str = "velero";

/// Describes the spec of a backup.
pub(super) fn describe_spec(describer: &mut Describer<'_>, spec: &BackupSpec) {
    describer.line("Namespaces:");
    describer.filter("\t", &spec.included_namespaces, "*", &spec.excluded_namespaces);
    describer.gap();
    describer.line("Resources:");
    describe_resources(describer, spec);
    describer.gap();
    describer.selectors(spec.label_selector.as_ref(), &spec.or_label_selectors);
    describer.gap();
    describer.field("Storage Location", &spec.storage_location);
    describer.gap();
    describe_volume_choices(describer, spec);
    describer.gap();
    describer.field("TTL", spec.ttl);
    describer.gap();
    describer.field("CSISnapshotTimeout", spec.csi_snapshot_timeout);
    describer.field("ItemOperationTimeout", spec.item_operation_timeout);
    describer.gap();
    describe_hooks(describer, &spec.hooks.resources);
    if !spec.ordered_resources.is_empty() {
        describer.gap();
        describer.line("OrderedResources:");
        for (kind, names) in &spec.ordered_resources {
            describer.line(format_args!("\t{kind}: {names}"));
        }
    }
}

fn describe_resources(describer: &mut Describer<'_>, spec: &BackupSpec) {
    if uses_old_filters(spec) {
        describer.filter("\t", &spec.included_resources, "*", &spec.excluded_resources);
        let cluster_scoped = choice(spec.include_cluster_resources, "excluded", "included", "auto");
        describer.field("\tCluster-scoped", cluster_scoped);
        return;
    }
    describer.field("\tIncluded cluster-scoped", joined(&spec.included_cluster_scoped_resources, NONE));
    describer.field("\tExcluded cluster-scoped", joined(&spec.excluded_cluster_scoped_resources, NONE));
    describer.field("\tIncluded namespace-scoped", joined(&spec.included_namespace_scoped_resources, "*"));
    describer.field("\tExcluded namespace-scoped", joined(&spec.excluded_namespace_scoped_resources, NONE));
}

fn describe_volume_choices(describer: &mut Describer<'_>, spec: &BackupSpec) {
    describer.field("Velero-Native Snapshot PVs", choice(spec.snapshot_volumes, "false", "true", "auto"));
    if let Some(file_system) = spec.default_volumes_to_fs_backup {
        describer.field("File System Backup (Default)", file_system);
    }
    describer.field("Snapshot Move Data", choice(spec.snapshot_move_data, "false", "true", "auto"));
    let data_mover = if spec.data_mover.is_empty() { DEFAULT_DATA_MOVER } else { &spec.data_mover };
    describer.field("Data Mover", data_mover);
}

fn describe_hooks(describer: &mut Describer<'_>, hooks: &[BackupResourceHookSpec]) {
    if hooks.is_empty() {
        describer.field("Hooks", NONE);
        return;
    }
    describer.line("Hooks:");
    describer.line("\tResources:");
    for hook in hooks {
        describer.line(format_args!("\t\t{}:", hook.name));
        describer.line("\t\t\tNamespaces:");
        describer.filter("\t\t\t\t", &hook.included_namespaces, "*", &hook.excluded_namespaces);
        describer.gap();
        describer.line("\t\t\tResources:");
        describer.filter("\t\t\t\t", &hook.included_resources, "*", &hook.excluded_resources);
        describer.gap();
        describer.field("\t\t\tLabel selector", selector_text(hook.label_selector.as_ref()));
        hook.pre_hooks.iter().for_each(|hook| describe_hook(describer, "Pre", hook));
        hook.post_hooks.iter().for_each(|hook| describe_hook(describer, "Post", hook));
    }
}

fn describe_hook(describer: &mut Describer<'_>, moment: &str, hook: &BackupResourceHook) {
    let exec = &hook.exec;
    describer.gap();
    describer.line(format_args!("\t\t\t{moment} Exec Hook:"));
    describer.field("\t\t\t\tContainer", &exec.container);
    describer.field("\t\t\t\tCommand", exec.command.join(" "));
    describer.field("\t\t\t\tOn Error", exec.on_error.as_ref().map_or("", |mode| mode.as_str()));
    describer.field("\t\t\t\tTimeout", exec.timeout);
}
