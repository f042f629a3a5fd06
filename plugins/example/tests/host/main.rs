//! The example's binary under our host, on good days and bad ones, and under the original's; and the original's own
//! plugins under ours.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod actions;
mod api_data_mover;
mod api_plugin_config;
mod aws_plugin;
mod bad_days;
mod bad_plugins;
mod operations;
mod peer_plugin_host;
mod stores;
mod support;
mod volumes;
