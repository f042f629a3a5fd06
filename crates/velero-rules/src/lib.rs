//! What is decided: filters, policies, hooks, order, schedules, phases, retention.
//!
//! Everything here takes values and gives values. There is no client, no clock and no file: whoever asks passes what
//! the cluster holds and what time it is. The crate stands between `velero-api`, which describes the data, and the
//! engine and controllers, which act on the decisions.

pub mod agent_pods;
pub mod api_versions;
pub mod asked;
pub mod backup_sync;
pub mod cancellation;
pub mod causes;
pub mod conditions;
pub mod cron;
pub mod data_move;
pub mod deletion;
pub mod difference;
pub mod download;
pub mod events;
pub mod existing_namespaces;
pub mod hooks;
pub mod includes_excludes;
pub mod interrupted;
pub mod lease;
pub mod names;
pub mod node_agent_config;
pub mod operations;
pub mod ordering;
pub mod pairs;
pub mod phases;
pub mod pod_volumes;
pub mod quantity;
pub mod queue;
pub mod repository_config;
pub mod repository_maintenance;
pub mod repository_snapshots;
pub mod resource_filter;
pub mod resource_modifiers;
pub mod resource_policies;
pub mod restore_hooks;
pub mod restore_validation;
pub mod resume;
pub mod retention;
pub mod schedule;
pub mod selector;
pub mod strategic_merge;
mod unusable;
pub mod validation;
pub mod volume_decision;
pub mod volume_records;
pub mod volume_zone;
pub mod wildcard;

pub use unusable::Unusable;
