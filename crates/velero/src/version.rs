//! What this build is.

/// The version, with the letter people expect.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit it was built from; `build.rs` finds it. A build that is no release says `-dev`: there may be changes on top.
pub(crate) const GIT_COMMIT: &str = env!("VELERO_BUILT_FROM");

/// Where bugs are reported, when the build says: set `VELERO_ISSUE_URL` for the compiler.
pub(crate) const ISSUE_URL: Option<&str> = option_env!("VELERO_ISSUE_URL");
