//! What backups and restores go through alike, written once for both.
//!
//! ```text
//! kind ── what a backup and a restore have in common: phase, counts, operations, files, journal
//! phase ── the only way they get another phase
//! ending ── how one fails as a whole
//! operation ── something an action started that goes on
//! started ── stores what one sets going while it runs, so that a failure can cancel it
//! round ── one look at operations: what happened goes in, what is to be done comes out
//! poll ── asks the actions how far their operations are
//! follow ── looks at the operations of one that waits, and moves it on
//! files ── operations, results and log in the bucket
//! cancel ── tells the actions that nobody waits any more
//! cancellation ── what somebody asked to be cancelled: how it is heard of, and the end of what never began
//! debts, movers, records ── what an interrupted run, or one that ended, has left behind
//! copy_means ── time and repositories for copies of volumes through pods
//! trace ── what traces tell of one as a whole
//! policies, refusal ── what they are prepared with, and what becomes of one that cannot be read
//! ```
//!
//! Every failed operation is one error. The file of operations is written first, then results and log, then the
//! object, whose counters say which failures are told already: a server that is stopped in between tells the rest.

pub(crate) mod cancel;
pub(crate) mod cancellation;
pub(crate) mod copy_means;
pub(crate) mod debts;
pub(crate) mod ending;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod kind;
pub(crate) mod movers;
pub(crate) mod operation;
pub(crate) mod phase;
pub(crate) mod policies;
pub(crate) mod poll;
pub(crate) mod records;
pub(crate) mod refusal;
mod round;
pub(crate) mod started;
pub(crate) mod trace;
