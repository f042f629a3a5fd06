//! The steps on items that are backed up.

pub(crate) mod common;
pub(crate) mod config_map;
pub(crate) mod deployment_config;
pub(crate) mod image_stream;
pub(crate) mod image_stream_tag;
pub(crate) mod persistent_volume;
pub(crate) mod pod;
pub(crate) mod replication_controller;
pub(crate) mod service_account;

use crate::action::BackupStep;

/// All of them.
pub(crate) fn steps() -> Vec<Box<dyn BackupStep>> {
    vec![
        Box::new(common::Step),
        Box::new(service_account::Step),
        Box::new(persistent_volume::Step),
        Box::new(image_stream_tag::Step),
        Box::new(pod::Step),
        Box::new(deployment_config::Step),
        Box::new(replication_controller::Step),
        Box::new(image_stream::Step),
        Box::new(config_map::Step),
    ]
}
