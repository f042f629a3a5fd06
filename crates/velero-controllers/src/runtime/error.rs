//! Failures of the server, and which object must change before another try can help.

use velero_rules::lease::{LEASE_NAME, Loss};

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
    #[error("{kind} {name:?}: {problem}")]
    Invalid {
        /// The kind of the object that must change.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An object refers to something that is not there or not as it must be; it may come at any time.
    #[error("{kind} {name:?}: {problem}")]
    Unmet {
        /// The kind of the object that refers to it.
        kind: String,
        /// Its name.
        name: String,
        /// What is missing and what to do.
        problem: String,
    },
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] velero_cluster::Error),
    /// The object store refused or did not answer.
    #[error(transparent)]
    Store(#[from] velero_store::Error),
    /// A repository of volume data cannot be used.
    #[error(
        "the repository of namespace {namespace:?} in BackupStorageLocation {location:?}: {source}{}",
        remedy(source)
    )]
    Repository {
        /// The namespace whose volumes it holds.
        namespace: String,
        /// The location it is in.
        location: String,
        /// What is wrong with it.
        source: velero_repo::Error,
    },
    /// The built-in actions cannot be used together.
    #[error(transparent)]
    Plugin(#[from] velero_plugin::Error),
    /// Metrics could not be set up.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The Lease is in other hands.
    #[error(
        "Lease {namespace}/{LEASE_NAME} is lost: {loss}; this server has stopped at once, and whoever holds the Lease next \
         ends what it was working on"
    )]
    LeaseLost {
        /// The namespace of the server.
        namespace: String,
        /// How it was lost.
        loss: Loss,
    },
    /// A part of the server ended that never should.
    #[error("a part of the server ended unexpectedly: {problem}")]
    Ended {
        /// How.
        problem: String,
    },
    /// The process could not be prepared for signals.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

impl Error {
    /// An error about one object that only a change of it can cure.
    pub(crate) fn invalid(kind: &str, name: &str, problem: impl Into<String>) -> Self {
        Self::Invalid { kind: kind.to_owned(), name: name.to_owned(), problem: problem.into() }
    }

    /// An error about something that an object refers to and that may come without a change of the object.
    pub(crate) fn unmet(kind: &str, name: &str, problem: impl Into<String>) -> Self {
        Self::Unmet { kind: kind.to_owned(), name: name.to_owned(), problem: problem.into() }
    }

    /// Whether nothing but a change of this very object can help. What is wrong with any other object may be mended
    /// without anybody touching this one.
    pub(crate) fn waits_for_change_of(&self, wanted_kind: &str, wanted_name: &str) -> bool {
        matches!(self, Self::Invalid { kind, name, .. } if kind == wanted_kind && name == wanted_name)
    }
}

/// What to do about a repository that cannot be used, behind what is wrong with it.
fn remedy(error: &velero_repo::Error) -> &'static str {
    use velero_repo::Error as E;
    match error {
        E::WrongPassword { .. } => {
            "; it was made with another one: put that into key \"repository-password\" of secret \
             \"velero-repo-credentials\", it is tried again within five minutes"
        }
        E::DamagedBlob { .. } | E::DamagedContent { .. } | E::ContentNotFound { .. } => {
            "; 'velero repo verify' says what is damaged"
        }
        E::Malformed { .. } => {
            "; something else was written over it, 'velero repo verify' says what; restore its folder or empty it"
        }
        E::NoRepository { .. } => "; delete its BackupRepository, and it is made anew with the next backup",
        E::NotOwner { .. } => "; only repositories made by Velero are maintained here",
        _ => "",
    }
}

/// An error with all its causes on one line, for logs and status messages. A cause that its effect already quotes is
/// not said twice.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let text = velero_api::with_causes(error);
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
    fn only_an_error_in_this_very_object_waits_for_its_change() {
        let refused = kube::core::Status::failure("no", "Invalid").with_code(422);
        for (error, waits) in [
            (Error::invalid("Backup", "b", "x"), true),
            (Error::invalid("Backup", "other", "x"), false),
            (Error::invalid("BackupStorageLocation", "b", "x"), false),
            (Error::unmet("Backup", "b", "its secret is missing"), false),
            (velero_cluster::Error::from_status("patch backups b", refused).into(), false),
            (Error::Setting { flag: "x", problem: String::new() }, false),
        ] {
            assert_eq!(error.waits_for_change_of("Backup", "b"), waits, "{error}");
        }
    }
}
