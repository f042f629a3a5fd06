//! What must be true once faults have ended and there was time: read from the cluster and the bucket, not from the server.
//!
//! ```text
//! look ── what is there
//! unfinished ── work that nobody does
//! schedules ── whether they go on making backups
//! owners ── what nobody owns
//! contents ── whether what is Completed is whole
//! agreement ── whether status, results, log and list say the same
//! secrets ── whether a log tells what it must not
//! ```

mod agreement;
mod contents;
mod look;
mod owners;
mod schedules;
mod secrets;
mod unfinished;

pub(super) use agreement::metric;
pub(super) use look::Look;
pub(super) use secrets::Secrets;

use anyhow::Result;
use jiff::Timestamp;

use super::books::Books;
use super::report::Report;
use super::stage::Stage;

/// What is not as it must become, given some time.
pub(super) fn not_yet(stage: &Stage, books: &Books, look: &Look) -> Result<Vec<String>> {
    let mut found = unfinished::find(books, look);
    found.extend(schedules::find(look, Timestamp::now()));
    found.extend(owners::find(stage, look)?);
    Ok(found)
}

/// What is not as it must be: what has ended since the last look is looked into.
pub(super) fn untrue(
    stage: &Stage,
    books: &mut Books,
    look: &Look,
    secrets: &mut Secrets,
    report: &mut Report,
) -> Result<Vec<String>> {
    let mut found = contents::lost(books, look);
    for (name, object, is_backup) in look.ended() {
        if books.whole.contains(name) {
            continue;
        }
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        report.ending(format!("{} {phase}", if is_backup { "backup" } else { "restore" }));
        let mut wrong = contents::find(stage, books, name, object, is_backup)?;
        wrong.extend(agreement::find(stage, name, object, is_backup, secrets)?);
        if wrong.is_empty() {
            report.check(if is_backup { "backups" } else { "restores" });
            books.whole.insert(name.to_owned());
        }
        found.extend(wrong);
    }
    found.extend(secrets.in_logs(stage)?);
    Ok(found)
}
