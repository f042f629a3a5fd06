//! The report: what was protected, what failed, what no schedule covers, how much it is and how that changes.
//!
//! ```text
//! gather ── lists what a cluster holds, page by page; what may not be seen is noted, not guessed
//!   └─ facts ── the little of each object that counts
//!        └─ reckon ── facts → report: runs of schedules, coverage, days
//!             ├─ protection, coverage ── what backups and schedules make of namespaces and objects; the page asks here too
//!             └─ html, JSON ── how it is shown
//! ```
//!
//! Only `gather` talks to anybody. Who asks says what time it is.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod chart;
mod coverage;
mod facts;
mod gather;
mod html;
mod period;
mod protection;
mod reckon;
mod report;
mod runs;

pub use coverage::Covers;
pub use facts::{BackupFact, ClaimFact, Facts, LocationFact, NamespaceFact, RestoreFact, VolumeFact};
pub use gather::gather;
pub use html::html;
pub use period::{InvalidPeriod, Period};
pub use protection::{Gap, ObjectGap, Protection, Scope, Taken, object_gap, protection};
pub use reckon::reckon;
pub use report::{
    ClaimRow, Day, FailureRow, LocationRow, NamespaceRow, Point, Report, ScheduleRow, Summary, bytes_text, time_text,
};
