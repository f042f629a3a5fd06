//! The engine against a real API server, and where pods run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod api_admission;
mod api_asked_volumes;
mod api_lost_answers;
mod api_relations;
mod api_restore;
mod api_scale;
mod api_selection;
mod box_copies;
mod box_hooks;
mod box_restore_hooks;
mod support;
