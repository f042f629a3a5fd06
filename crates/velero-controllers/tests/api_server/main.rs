//! The whole server, run in this process against a real API server and real stores.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod agent_support;
mod backups;
mod cancellation;
mod deletion;
mod deletion_steps;
mod downloads;
mod dry_runs;
mod ebs;
mod forgotten_snapshots;
mod global_policies;
mod hooks;
mod locations;
mod lossy_proxy;
mod lost_answers;
mod lost_creations;
mod missing_types;
mod moved_scene;
mod moved_snapshots;
mod mover_support;
mod movers;
mod node_agent;
mod operation_endings;
mod operation_records;
mod operation_restarts;
mod operation_table;
mod ownership;
mod played_agents;
mod plugins;
mod pod_volumes;
mod refusals;
mod repositories;
mod restarts;
mod restore_ends;
mod restore_refusals;
mod restores;
mod retries;
mod schedules;
mod status;
mod steered;
mod support;
mod sync;
mod volume_operations;
mod volume_snapshots;
mod volumes;
