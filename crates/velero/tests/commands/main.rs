//! The commands against a real API server.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod api_peer_server;
mod api_plugins;
mod api_restores;
mod api_server_status;
mod api_tables;
mod closed_output;
