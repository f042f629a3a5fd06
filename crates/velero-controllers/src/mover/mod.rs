//! The third kind of process, beside server and node agent: what runs in the pods that a node agent starts. It moves the
//! data of one volume into a repository or out of it, and ends.
//!
//! ```text
//! run ── the order of steps, from the first look at its object to the termination message
//!   ├─ follow ── its object: may it begin, is it cancelled, is it gone
//!   ├─ tell ── Events on its object: started, how far, how it ended
//!   ├─ transfer ── the blocking work, on threads of its own, and how far it is
//!   │    └─ done_file ── lets a restored pod start
//!   └─ ending ── how it ended, in words
//! plan, kind ── from one of four kinds of objects to what is to be done; settings ── what it is told when it starts
//! ```
//!
//! What it says is read by node agents, ours and Velero's: `velero_api::records::DataPathProgress` and its neighbours.

mod done_file;
mod ending;
mod follow;
mod kind;
mod plan;
mod run;
mod settings;
mod tell;
mod transfer;

pub use run::{run, run_until};
pub use settings::{MovedKind, Settings, UnknownVolumeMode, VolumeMode};
