//! `velero backup …`

mod create;
mod delete;
mod describe;
mod download;
mod get;
mod logs;

pub(super) use create::{content_spec, create, validate_content};
pub(super) use delete::delete;
pub(super) use describe::{describe, wanted};
pub(super) use download::download;
pub(super) use get::get;
pub(super) use logs::logs;
