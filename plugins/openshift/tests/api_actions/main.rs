//! What the actions look up, copy and write down, against a real API server and real registries.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod actions;
mod host;
mod images;
mod support;
