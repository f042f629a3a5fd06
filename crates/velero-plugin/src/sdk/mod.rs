//! Makes a plugin binary.
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # use async_trait::async_trait;
//! # use serde_json::Value;
//! # use velero_api::v1::Backup;
//! use velero_plugin::sdk::{Plugins, serve};
//! use velero_plugin::{BackupItemAction, BackupItemOutcome, ResourceSelector, Result};
//!
//! struct Nothing;
//!
//! #[async_trait]
//! impl BackupItemAction for Nothing {
//!     fn name(&self) -> &str {
//!         "example.com/nothing"
//!     }
//!     async fn applies_to(&self) -> Result<ResourceSelector> {
//!         Ok(ResourceSelector::resources(&["pods"]))
//!     }
//!     async fn execute(&self, _: &Value, _: &Backup) -> Result<BackupItemOutcome> {
//!         Ok(BackupItemOutcome::default())
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> ExitCode {
//!     serve(Plugins::new().backup_item_action(Nothing)).await
//! }
//! ```
//!
//! Called as `PLUGIN install FOLDER` the binary copies itself there, as the image for `velero plugin add` must.
//!
//! The host asks a binary what it brings before there is anything to do: connect to clusters and stores when first
//! called, not when made. Log with `tracing`; the host adds the lines to the log of the backup or restore.

mod config;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod install;
#[cfg(target_os = "linux")]
mod listener;
#[cfg(target_os = "linux")]
mod logs;
mod plugins;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod services;
#[cfg(target_os = "linux")]
mod stdio;

pub use config::plugin_config;
pub use plugins::{ObjectStoreProvider, Plugins};
#[cfg(target_os = "linux")]
pub use server::serve;
/// An error with all its causes.
pub use velero_api::with_causes;
/// The account that the config of a location of AWS names.
pub use velero_store::aws_credentials;
/// What an object store needs.
pub use velero_store::{ByteStream, Error as StoreError, ObjectStore, ObjectStoreHandle, Result as StoreResult};

/// A flag of the server that runs the plugin, such as `features` or `log-level`: the host passes its own arguments on.
pub fn server_flag(name: &str) -> Option<String> {
    flag(std::env::args().skip(1), name)
}

/// The value of `--name=value` or `--name value`.
fn flag(mut arguments: impl Iterator<Item = String>, name: &str) -> Option<String> {
    let flag = format!("--{name}");
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(&flag) {
            Some("") => return arguments.next(),
            Some(rest) if rest.starts_with('=') => return Some(rest[1..].to_owned()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_in_both_forms_among_unknown_ones() {
        for (arguments, value) in [
            ("--unknown x --features=A,B", Some("A,B")),
            ("--features A --other", Some("A")),
            ("--features-list=A", None),
            ("features=A", None),
            ("--features", None),
            ("--features=", Some("")),
        ] {
            let found = flag(arguments.split(' ').map(str::to_owned), "features");
            assert_eq!(found.as_deref(), value, "{arguments}");
        }
    }
}
