//! After the faults: time in which everything has to come to its end.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use velero_testkit::machine::wait_until;
use velero_testkit::progress::say;

use super::books::{AskedBackup, Books};
use super::invariants::{self, Look};
use super::report::Report;
use super::stage::Stage;
use super::workload::{self, SCHEDULE, name_of};

/// How long the server that went through the faults may take.
const FIRST: Duration = Duration::from_secs(100);
/// How long a fresh one may take for what the other left.
const SECOND: Duration = Duration::from_secs(150);
const A_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the API server and its controllers may take to work again.
const CLUSTER: Duration = Duration::from_secs(90);

/// Waits until all work has ended; gives what has not, and what is left over.
pub(super) fn settle(stage: &mut Stage, books: &mut Books, report: &mut Report) -> Result<Vec<String>> {
    stage.start_server()?;
    wait_until("the API server", CLUSTER, || stage.machine.read("/api/v1/namespaces/default").map(drop))?;
    if stage.has_node() {
        stage.refresh_agents()?;
    }
    let left = until_settled(stage, books, report, FIRST)?;
    if left.is_empty() {
        return Ok(left);
    }
    report.check("(rounds that needed a fresh server)");
    say(format!("a fresh server has to end what is left: {left:#?}"));
    stage.restart_server()?;
    until_settled(stage, books, report, SECOND)
}

fn until_settled(stage: &mut Stage, books: &mut Books, report: &mut Report, patience: Duration) -> Result<Vec<String>> {
    let begun = Instant::now();
    let mut asked_again = false;
    loop {
        if stage.watch_over_server()? {
            report.fault("(server ended by itself)");
        }
        let is_late = begun.elapsed() > patience;
        match what_is_left(stage, books) {
            Ok((_, left)) if left.is_empty() || is_late => return Ok(left),
            Ok((look, _)) if !asked_again => {
                ask_again(stage, books, &look);
                asked_again = true;
            }
            Ok(_) => {}
            Err(problem) if is_late => return Err(problem),
            // What has just come back may refuse a question.
            Err(_) => {}
        }
        sleep(A_LOOK_EVERY);
    }
}

/// Looks what is there, and what is left to be done of it.
fn what_is_left(stage: &Stage, books: &mut Books) -> Result<(Look, Vec<String>)> {
    let look = Look::take(stage)?;
    adopt(stage, books, &look);
    let left = invariants::not_yet(stage, books, &look)?;
    Ok((look, left))
}

/// Backups that schedules and second tries have made are as good as asked for.
pub(super) fn adopt(stage: &Stage, books: &mut Books, look: &Look) {
    for backup in &look.backups {
        let metadata = &backup["metadata"];
        let of_schedule = metadata["labels"]["velero.io/schedule-name"] == SCHEDULE;
        let is_again = metadata["annotations"]["velero.io/retry-of"].is_string();
        if books.backups.contains_key(name_of(backup)) || !(of_schedule || is_again) {
            continue;
        }
        let of = |namespace: &Value| stage.sources.iter().position(|source| *namespace == source.namespace.as_str());
        if let Some(source) = of(&backup["spec"]["includedNamespaces"][0]) {
            books.backups.insert(name_of(backup).to_owned(), AskedBackup::there(source));
        }
    }
}

/// Asks once more for the deletions that were refused or never arrived.
fn ask_again(stage: &Stage, books: &mut Books, look: &Look) {
    let is_open = |request: &Value, backup: &str| {
        request["spec"]["backupName"] == backup && request["status"]["phase"] != "Processed"
    };
    let there = look.backup_names();
    let to_go: Vec<String> = books
        .backups
        .iter()
        .filter(|(name, asked)| asked.is_to_go && there.contains(*name))
        .filter(|(name, _)| !look.requests.iter().any(|request| is_open(request, name)))
        .map(|(name, _)| name.clone())
        .collect();
    for backup in to_go {
        workload::request_deletion(stage, books, &backup);
    }
    let is_going = |restore: &Value| restore["metadata"]["deletionTimestamp"].is_string();
    for restore in look.restores.iter().filter(|restore| !is_going(restore)).map(name_of) {
        if books.restores.get(restore).is_some_and(|asked| asked.is_to_go) {
            let _ = stage.machine.delete(&format!("{}/{restore}", stage.path("restores")));
        }
    }
}

/// Removes the namespaces that were restored to. They have been looked into, and nobody needs them any more.
pub(super) fn clear_targets(stage: &Stage, books: &Books) {
    let names = stage.machine.items("/api/v1/namespaces").unwrap_or_default();
    let is_target = |name: &&str| name.starts_with("restore-") || books.restores.contains_key(*name);
    let is_going = |namespace: &&Value| namespace["metadata"]["deletionTimestamp"].is_string();
    let there = names.iter().filter(|namespace| !is_going(namespace));
    for target in there.map(name_of).filter(is_target) {
        let _ = stage.machine.delete(&format!("/api/v1/namespaces/{target}"));
    }
}
