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
    /// A plugin binary cannot be used.
    #[error("plugin {command}: {problem}")]
    Binary {
        /// The file.
        command: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Two binaries bring the same plugin.
    #[error("{kind} {name} of {second} is already brought by {first}; remove one of the two")]
    BroughtTwice {
        /// The kind of the plugin.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The binary that came first.
        first: String,
        /// The binary that came later.
        second: String,
    },
    /// The folder of plugin binaries cannot be read.
    #[error("plugin folder {path}: {source}")]
    Folder {
        /// The folder or file.
        path: String,
        /// What the file system said.
        source: std::io::Error,
    },
    /// No binary brings that plugin.
    #[error("no plugin brings {kind} {name}; known are [{known}], others are added with `velero plugin add`")]
    NoSuchPlugin {
        /// The kind of the plugin.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The names of that kind that are known.
        known: String,
    },
    /// A plugin answered a call with an error, badly or not at all.
    #[error("{kind} {plugin}: {call}{}{object}: {problem}", if object.is_empty() { "" } else { " of " })]
    Call {
        /// The kind of the plugin.
        kind: &'static str,
        /// Its name.
        plugin: String,
        /// The call, as the protocol names it.
        call: &'static str,
        /// What the call was about; empty when there is nothing to name.
        object: String,
        /// What went wrong.
        problem: String,
    },
    /// Anything else, in words of the plugin.
    #[error("{0}")]
    Failed(String),
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] velero_cluster::Error),
}
