//! What ends a backup as a whole.

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
