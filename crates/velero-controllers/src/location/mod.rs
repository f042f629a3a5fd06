//! Locations: can they be used, which one is the default, and what their state means for backups.

pub(crate) mod availability;
pub(crate) mod default;
pub(crate) mod state;
