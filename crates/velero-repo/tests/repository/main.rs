//! Repositories from outside: those that Velero wrote, those we write, those that are damaged or mean harm.

#![allow(clippy::unwrap_used, reason = "all of it is test")]

/// As movers have it (`crates/velero/src/main.rs`): some of the tests measure memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod alone;
mod damage;
mod hardships;
mod hostile;
mod hostile_directories;
mod large;
mod samples;
mod upload;

#[path = "../sample/mod.rs"]
mod sample;
#[path = "../trees/mod.rs"]
mod trees;
