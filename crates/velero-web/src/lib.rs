//! The page of the server: what is safe, what runs, what went wrong, and what to do about it.
//!
//! The page has no rights of its own. Who signs in shows a token of Kubernetes, and whatever the page reads or does for
//! them is asked of the API server with that token (or, where a proxy is trusted, in the name of whom it names); lists, which the server keeps small copies of, and files are shown to
//! those of whom the API server says that they may read them. `docs/design/020-the-page.md` says why.
//!
//! ```text
//! server ── routes, and what holds for every request: guard (origins, headers, deadlines), connections (how many, how long)
//!   actions/ ── what is done for a person, with a form and its answer
//!   pages/ ── one file a page: from what is known to HTML
//!     user ── who asks, with the rights of that person; identity (a token or a trusted proxy), session (what is sealed in cookies),
//!             jar (which cookies those are), attempts (how often may be tried), rights (what the API server said of them a moment ago)
//!     index ── small rows of backups, restores, schedules, locations and volumes, kept current by watches
//!     memo ── what is the same for many open pages, made once a change
//!     files ── logs, results, lists and objects of a backup, a page at a time
//!     cluster_side ── what the cluster holds, listed with the rights of who compares it with a backup
//!       kept, digests, moves, rows, shown, comparison, line_difference, command, chart, text ── pure
//! ```

mod actions;
mod attempts;
mod chart;
mod cluster_side;
mod command;
mod comparison;
mod connections;
mod digests;
mod files;
mod form;
mod guard;
mod identity;
mod index;
mod jar;
mod kept;
mod line_difference;
mod memo;
mod moves;
mod pages;
mod problem;
mod rights;
mod rows;
mod server;
mod session;
mod shown;
mod text;
mod tls;
mod user;

pub use files::{FileProblem, Files};
pub use identity::TrustedProxy;
pub use server::{Means, serve};
pub use tls::{Tls, TlsFiles, TlsProblem};
