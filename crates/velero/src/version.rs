//! What this build is.

/// The version, with the letter people expect.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit it was built from, when the build says: set `VELERO_GIT_COMMIT` for the compiler.
pub(crate) const GIT_COMMIT: &str = match option_env!("VELERO_GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Where bugs are reported, when the build says: set `VELERO_ISSUE_URL` for the compiler.
pub(crate) const ISSUE_URL: Option<&str> = option_env!("VELERO_ISSUE_URL");
