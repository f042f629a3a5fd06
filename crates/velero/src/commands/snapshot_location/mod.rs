//! `velero snapshot-location …`

mod create;
mod get;
mod set;

pub(super) use create::create;
pub(super) use get::get;
pub(super) use set::set;
