//! The project's commands from outside.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod door;
mod examples;
mod killed;
