//! The commands: those of clusters against a real API server, those of repositories on real repositories.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod api_cancel;
mod api_completion;
mod api_install;
mod api_location_check;
mod api_migrate;
mod api_peer_server;
mod api_plugins;
mod api_repo_command;
mod api_report;
mod api_restores;
mod api_resume;
mod api_server_status;
mod api_tables;
mod api_waiting;
mod closed_output;
mod repo_command;
mod support;

#[path = "../../../velero-repo/tests/sample/mod.rs"]
mod sample;
