//! One file a page: from what is known to HTML.

pub(crate) mod assets;
pub(crate) mod backup;
pub(crate) mod backups;
pub(crate) mod compare;
pub(crate) mod coverage;
mod covered_claims;
mod covered_objects;
mod deletions;
pub(crate) mod layout;
pub(crate) mod live;
pub(crate) mod location;
pub(crate) mod locations;
pub(crate) mod log;
pub(crate) mod object_difference;
pub(crate) mod objects;
pub(crate) mod operations;
pub(crate) mod overview;
mod paged;
pub(crate) mod parts;
pub(crate) mod restore;
pub(crate) mod restores;
pub(crate) mod schedule;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod transfers;
pub(crate) mod volumes;

use axum::response::Html;

use crate::problem::Problem;

/// A page, or why there is none.
pub(crate) type Answer = Result<Html<String>, Problem>;

/// An address that nothing is at.
pub(crate) async fn nothing_here() -> Problem {
    Problem::NotFound("there is nothing at this address".to_owned())
}
