//! What the whole-system tests share. Each story is a file beside this folder.

pub mod audit;
pub mod backups;
pub mod book;
pub mod command_line;
pub mod csi;
pub mod difference;
pub mod fault_matrix;
pub mod fixture;
pub mod helm;
pub mod host;
pub mod openshift;
pub mod otlp_receiver;
pub mod page;
pub mod picture;
pub mod prometheus;
pub mod restores;
pub mod rivals;
pub mod said;
pub mod types;
pub mod volume_data;
pub mod volume_kills;
pub mod volume_scenarios;
pub mod watched;
pub mod workloads;
