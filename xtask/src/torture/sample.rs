//! Work by a fresh server after the faults: a backup of before is restored, and a new one is taken.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use velero_tests::{backups, restores};

use super::books::{AskedBackup, Books};
use super::invariants::metric;
use super::report::Report;
use super::stage::Stage;
use super::workload::request_deletion;

/// How long a backup or restore may take without any fault.
const PATIENCE: Duration = Duration::from_secs(150);

/// Has a fresh server restore a backup, chosen at random, and take another of the same source.
pub(super) fn take(stage: &mut Stage, books: &mut Books, report: &mut Report) -> Result<()> {
    let whole: Vec<String> = books.whole.iter().filter(|name| books.backups.contains_key(*name)).cloned().collect();
    let mut completed = Vec::new();
    for name in whole {
        if stage.server.object("backups", &name)?["status"]["phase"] == "Completed" {
            completed.push(name);
        }
    }
    let Some(backup) = stage.random.choice(completed) else { return Ok(()) };
    stage.restart_server()?;
    let source = books.backups[&backup].source;
    let (restore, next) = (books.name("sample-restore"), books.name("sample-backup"));
    let of = stage.sources[source].clone();
    let spec = json!({"backupName": backup, "namespaceMapping": {of.namespace.as_str(): restore}});
    restores::create(&stage.server, &restore, &spec)?;
    backups::create(&stage.server, &next, &of.backup_spec())?;
    let mut wrong = Vec::new();
    let restored = restores::ended(&stage.server, &restore, PATIENCE);
    match restored {
        Ok(restored) if restored["status"]["phase"] == "Completed" => {
            wrong.extend(of.missing_in(&stage.machine, &restore)?);
        }
        Ok(restored) => wrong.push(format!("the restore of it ended so: {}", restored["status"])),
        Err(problem) => wrong.push(format!("the restore of it did not end: {problem:#}")),
    }
    match backups::ended(&stage.server, &next, PATIENCE) {
        Ok(taken) if taken["status"]["phase"] == "Completed" => {}
        Ok(taken) => wrong.push(format!("another of the same source ended so: {}", taken["status"])),
        Err(problem) => wrong.push(format!("another of the same source did not end: {problem:#}")),
    }
    if wrong.is_empty() {
        wrong.extend(counted(stage)?);
    }
    report.work("sample: a restore and a backup by a fresh server");
    if wrong.is_empty() {
        report.check("samples");
    }
    wrong.iter().for_each(|wrong| report.violation(&format!("sample of backup {backup} ({:?}): {wrong}", of.way)));
    stage.machine.delete(&format!("{}/{restore}", stage.path("restores")))?;
    stage.machine.delete(&format!("/api/v1/namespaces/{restore}"))?;
    books.backups.insert(next.clone(), AskedBackup::there(source));
    request_deletion(stage, books, &next);
    Ok(())
}

/// A fresh server has done one of each, and counts them so.
fn counted(stage: &Stage) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    // Backups of the schedule come besides; a restore counts for the schedule of its backup.
    let series = [
        "velero_backup_success_total{schedule=\"\"}",
        "velero_restore_success_total{",
        "velero_restore_attempt_total{",
    ];
    for series in series {
        let counted = metric(stage, series)?;
        if (counted - 1.0).abs() > f64::EPSILON {
            wrong.push(format!("{series} is {counted} after one"));
        }
    }
    Ok(wrong)
}
