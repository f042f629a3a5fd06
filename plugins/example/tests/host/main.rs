//! The example's binary under our host, on good days and bad ones.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod actions;
mod bad_days;
mod bad_plugins;
mod operations;
mod stores;
mod support;
mod volumes;
