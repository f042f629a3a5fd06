//! The page of the server: what is safe, what runs, what went wrong, and what to do about it.
//!
//! The page has no rights of its own. Who signs in shows a token of Kubernetes, and whatever the page reads or does for
//! them is asked of the API server with that token; lists, which the server keeps small copies of, and files are shown to
//! those of whom the API server says that they may read them. `docs/design/020-the-page.md` says why.
//!
//! ```text
//! server ── routes, and what holds for every request: guard (origins, headers, deadlines), connections (how many, how long)
//!   actions/ ── what is done for a person, with a form and its answer
//!   pages/ ── one file a page: from what is known to HTML
//!     user ── who asks, with the rights of that person; session (the sealed cookie), attempts (how often may be tried)
//!     index ── small rows of backups, restores, schedules and locations, kept current by watches
//!     files ── logs, results, lists and objects of a backup, a page at a time
//!       rows, coverage, command, text ── pure
//! ```

mod actions;
mod attempts;
mod command;
mod connections;
mod coverage;
mod files;
mod form;
mod guard;
mod index;
mod pages;
mod problem;
mod rows;
mod server;
mod session;
mod text;
mod user;

pub use files::{FileProblem, Files};
pub use server::{Means, serve};
