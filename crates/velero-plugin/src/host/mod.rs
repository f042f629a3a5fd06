//! Runs plugin binaries.
//!
//! ```text
//! PluginDirectory ── which binaries there are and what they bring; asked once, when the server starts
//!   └─ PluginManager ── the plugins of one backup or restore, as the traits of this crate
//!        └─ Restartable ── a binary, started when needed and again when it died
//!             └─ PluginProcess ── one run of it: handshake, connection, log, certain end
//! ```
//!
//! A plugin is never trusted to answer: every call has a deadline ([`Deadlines`]), what a plugin logs is cut to what a
//! log can take, and a process that dies again and again is given up.

mod actions;
mod call;
mod connection;
mod directory;
mod family;
pub(crate) mod handshake;
mod logs;
mod manager;
mod object_store;
mod process;
mod restart;
mod restore_action;
mod settings;
mod volume_snapshotter;

pub use directory::PluginDirectory;
pub use logs::{LogSink, PluginLogLine};
pub use manager::PluginManager;
pub use process::PluginProcess;
pub use settings::{Deadlines, HostSettings};
