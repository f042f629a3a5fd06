//! What can go wrong in an action.

/// The result of an action.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The action starts no operations that could be asked about.
    #[error("action {action} does not start asynchronous operations")]
    AsyncOperationsNotSupported {
        /// The name of the action.
        action: String,
    },
    /// The operation is not one that the action started.
    #[error("operation {operation_id:?} is not known to action {action}")]
    InvalidOperationId {
        /// The name of the action.
        action: String,
        /// What was asked about.
        operation_id: String,
    },
    /// Two actions of one kind have the same name.
    #[error("{kind} {name} is registered twice; remove one of the plugins that bring it")]
    DuplicateName {
        /// The kind of the actions.
        kind: &'static str,
        /// The name they share.
        name: String,
    },
    /// A name that is not `<DNS subdomain>/<name>`.
    #[error("{kind} name {name:?} is not valid; use the form example.com/name")]
    InvalidName {
        /// The kind of the action.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// What the action applies to cannot be understood.
    #[error("action {action} applies to an unreadable label selector: {source}")]
    Selector {
        /// The name of the action.
        action: String,
        /// What is wrong with it.
        source: velero_rules::selector::SelectorError,
    },
    /// The item lacks something or holds something unexpected.
    #[error("{0}")]
    Item(String),
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] velero_cluster::Error),
}
