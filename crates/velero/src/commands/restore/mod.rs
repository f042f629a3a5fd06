//! `velero restore …`

mod create;
mod delete;
mod describe;
mod get;
mod logs;
mod preview;
mod resume;

pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use describe::describe;
pub(super) use get::get;
pub(super) use logs::logs;
