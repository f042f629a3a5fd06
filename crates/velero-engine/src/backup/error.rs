//! What ends a backup as a whole, and what keeps an item out of it.

use crate::volumes::VolumeError;

/// Why there is no usable archive.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The namespaces decide what is backed up, so nothing works without them.
    #[error("cannot list the namespaces to back up: {0}")]
    Namespaces(#[source] velero_cluster::Error),
    /// A namespace pattern cannot be understood.
    #[error("spec.includedNamespaces or spec.excludedNamespaces holds a bad pattern: {0}")]
    NamespacePattern(#[from] velero_rules::wildcard::WildcardError),
    /// A label selector of the backup cannot be understood.
    #[error("{field} of the backup cannot be used: {source}")]
    Selector {
        /// Where it stands.
        field: &'static str,
        /// What is wrong with it.
        source: velero_rules::selector::SelectorError,
    },
    /// The resource policies do not go with the filters of the backup.
    #[error("spec.resourcePolicy cannot be used: {0}")]
    Policy(#[from] velero_rules::resource_filter::PolicyNotApplicable),
    /// The resource policies do not go with the types of the cluster.
    #[error("spec.resourcePolicy cannot be used: {0}")]
    Filters(#[from] velero_rules::resource_policies::PolicyError),
    /// An action did not say what it applies to.
    #[error("cannot prepare the actions of the backup: {0}")]
    Action(#[from] velero_plugin::Error),
    /// The archive could not be written.
    #[error("cannot write the archive of the backup: {0}")]
    Archive(#[source] velero_archive::Error),
    /// The archive takes no more records; the reason is with whoever writes it.
    #[error("the archive of the backup was closed before its end")]
    ArchiveClosed,
}

/// Why an item is not in the archive. The backup goes on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ItemError {
    /// An action failed.
    #[error(
        "error executing custom action {action} (groupResource={resource}, namespace={namespace}, name={name}): {source}"
    )]
    Action { action: String, resource: String, namespace: String, name: String, source: Box<velero_plugin::Error> },
    /// The item cannot be read, from the cluster or as JSON.
    #[error(transparent)]
    Unreadable(#[from] velero_cluster::Error),
    /// The data of its volume is not saved.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// An action asked for an item of a type that is not there.
    #[error("additional item {resource} {name}: the cluster does not serve its type")]
    NotServed { resource: String, name: String },
    /// An action took the name off the item.
    #[error("an action returned an item without a name")]
    Nameless,
    /// What an action made of the item cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An operation was begun when it was too late to wait for it.
    #[error("an action started an operation while the backup was finalized")]
    LateOperation,
    /// An action has renamed another item to the name of this one.
    #[error("an action has renamed {resource} {other} to {place}, whose place in the archive is taken by it")]
    TakenBy { resource: String, other: String, place: String },
    /// An action has renamed the item to the name of another.
    #[error("an action has renamed it to {place}, which is in the archive already (as {resource} {other})")]
    RenamedOnto { resource: String, other: String, place: String },
    /// The archive does not take it.
    #[error(transparent)]
    Refused(velero_archive::Error),
}
