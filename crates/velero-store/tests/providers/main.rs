//! Each provider against the real thing, or what its vendor tests with.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod azure;
mod check;
mod fs;
mod gcs;
mod s3;
mod shared_store;
