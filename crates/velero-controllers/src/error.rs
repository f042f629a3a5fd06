//! Failures of the server, sorted by what a retry can do about them.

/// Result of an operation of the server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the server or of one reconciliation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag has a value that cannot work.
    #[error("--{flag}: {problem}")]
    Setting {
        /// The flag without its dashes.
        flag: &'static str,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// The cluster lacks the definitions of Velero's kinds.
    #[error(
        "the cluster lacks the custom resource definitions {}; install them with `velero install --crds-only`",
        names.join(", ")
    )]
    MissingDefinitions {
        /// The plural names with their group.
        names: Vec<String>,
    },
    /// The server's namespace does not exist.
    #[error("namespace {namespace:?} does not exist; create it or choose another one with --namespace")]
    MissingNamespace {
        /// The namespace.
        namespace: String,
    },
    /// The address for metrics cannot be used.
    #[error("cannot listen on {address:?}: {source}; choose another address with --metrics-address")]
    Listen {
        /// The address as given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// An object says something that cannot be carried out; only a change of it helps.
    #[error("{object}: {problem}")]
    Invalid {
        /// The kind and name.
        object: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] velero_cluster::Error),
    /// The object store refused or did not answer.
    #[error(transparent)]
    Store(#[from] velero_store::Error),
    /// The built-in actions cannot be used together.
    #[error(transparent)]
    Plugin(#[from] velero_plugin::Error),
    /// Metrics could not be set up.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The process could not be prepared for signals.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

/// What a retry can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Nothing until the object changes.
    Invalid,
    /// It may work later.
    Transient,
}

impl Error {
    /// An error about one object that only a change of it can cure.
    pub(crate) fn invalid(kind: &str, name: &str, problem: impl Into<String>) -> Self {
        Self::Invalid { object: format!("{kind} {name:?}"), problem: problem.into() }
    }

    /// What a retry can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Invalid { .. } | Self::Cluster(velero_cluster::Error::Invalid(_)) => ErrorClass::Invalid,
            Self::Cluster(velero_cluster::Error::Unreadable { .. }) => ErrorClass::Invalid,
            _ => ErrorClass::Transient,
        }
    }
}

/// An error with all its causes on one line, for logs and status messages. A cause that its effect already quotes is
/// not said twice.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let text = velero_store::with_causes(error);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once_and_on_one_line() {
        let inner = std::io::Error::other("line one\nline two");
        let error = Error::Listen { address: ":1".to_owned(), source: inner };
        let text = describe(&error);
        assert_eq!(text.matches("line one").count(), 1, "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn an_invalid_object_waits_for_its_change() {
        assert_eq!(Error::invalid("Backup", "b", "x").class(), ErrorClass::Invalid);
        let setting = Error::Setting { flag: "x", problem: String::new() };
        assert_eq!(setting.class(), ErrorClass::Transient);
    }
}
