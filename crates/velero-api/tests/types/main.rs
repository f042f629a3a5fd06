//! The types against what the original writes and what the repository holds.

#![allow(clippy::unwrap_used, reason = "a test may stop on bad data")]

mod crd;
mod round_trip;
