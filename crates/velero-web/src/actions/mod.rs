//! What is done for a person: a form, and what comes of it. Everything is done with the token of that person.

pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod new_backup;
pub(crate) mod new_restore;
pub(crate) mod preview;
pub(crate) mod schedule;
pub(crate) mod sign_in;

use axum::response::Redirect;

use crate::problem::Problem;

/// Where to go once it is done, or why it is not.
pub(crate) type Done = Result<Redirect, Problem>;
