//! Asks the server for work. The API server may be away meanwhile: then nothing is asked for.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_tests::{backups, restores};

use super::books::{AskedBackup, AskedRestore, Books};
use super::plan::Work;
use super::stage::Stage;

/// How many backups and restores there are at most, about: deletions come more often then.
const MANY: usize = 16;
/// How long a backup may take without any fault.
const UNTIL_BASE: Duration = Duration::from_secs(150);

/// The schedule that is there from the first round on.
pub(super) const SCHEDULE: &str = "every-minute";

/// Makes a schedule of the first source.
pub(super) fn schedule(stage: &Stage) -> Result<()> {
    let spec = json!({
        "schedule": "* * * * *", "skipImmediately": false, "template": stage.sources[0].backup_spec(),
    });
    let metadata = json!({"name": SCHEDULE, "namespace": stage.server.namespace()});
    let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": metadata, "spec": spec});
    stage.machine.apply(&schedule.to_string())
}

/// Backs up every source without any fault. These backups stay.
pub(super) fn base(stage: &Stage, books: &mut Books) -> Result<()> {
    for (source, of) in stage.sources.iter().enumerate() {
        let name = books.name("base");
        backups::create(&stage.server, &name, &of.backup_spec())?;
        let status = backups::ended(&stage.server, &name, UNTIL_BASE)?["status"].take();
        ensure!(status["phase"] == "Completed", "{name} of {} is {status}", of.namespace);
        books.backups.insert(name, AskedBackup { is_base: true, ..AskedBackup::there(source) });
    }
    Ok(())
}

impl Work {
    /// Begins it; gives what was begun, in a word, or nothing where there was nothing to do it with.
    pub(super) fn begin(self, stage: &mut Stage, books: &mut Books) -> Option<String> {
        let backups = books.backups.values().filter(|asked| !asked.is_to_go).count();
        let restores = books.restores.values().filter(|asked| !asked.is_to_go).count();
        let wanted = match self {
            Self::Backup if backups > MANY => Self::Deletion,
            Self::Restore if restores > MANY => Self::RestoreDeletion,
            wanted => wanted,
        };
        match wanted {
            Self::Backup => back_up(stage, books),
            Self::Restore => restore(stage, books),
            Self::Deletion => delete(stage, books),
            Self::RestoreDeletion => delete_restore(stage, books),
            Self::Cancellation => cancel(stage, books),
        }
    }
}

fn back_up(stage: &mut Stage, books: &mut Books) -> Option<String> {
    let (source, name) = (stage.random.usize(0..stage.sources.len()), books.name("backup"));
    let of = &stage.sources[source];
    let mut request = backups::request(&stage.server, &name, &of.backup_spec());
    if stage.random.u8(0..4) == 0 {
        request["metadata"]["annotations"] = json!({"velero.io/retry-interrupted": "true"});
    }
    let is_sure = stage.machine.apply(&request.to_string()).is_ok();
    books.backups.insert(name, AskedBackup { is_sure, ..AskedBackup::there(source) });
    Some(format!("backup, {:?}", of.way))
}

fn restore(stage: &mut Stage, books: &mut Books) -> Option<String> {
    let is_whole = |backup: &Value| backup["status"]["phase"] == "Completed";
    let there = stage.machine.items(&stage.path("backups")).ok()?;
    let there: Vec<&str> = there.iter().filter(|it| is_whole(it)).map(name_of).collect();
    let usable: Vec<(String, usize)> = books
        .backups
        .iter()
        .filter(|(name, asked)| there.contains(&name.as_str()) && !asked.is_to_go)
        .map(|(name, asked)| (name.clone(), asked.source))
        .collect();
    let (backup, source) = stage.random.choice(usable)?;
    let (name, of) = (books.name("restore"), &stage.sources[source]);
    let spec = json!({"backupName": backup, "namespaceMapping": {of.namespace.as_str(): name}});
    let is_sure = restores::create(&stage.server, &name, &spec).is_ok();
    let way = of.way;
    books.restores.insert(name.clone(), AskedRestore { backup, source, target: name, is_sure, is_to_go: false });
    Some(format!("restore, {way:?}"))
}

fn delete(stage: &mut Stage, books: &mut Books) -> Option<String> {
    let candidates: Vec<String> = books
        .backups
        .iter()
        .filter(|(_, asked)| !asked.is_to_go && !asked.is_base)
        .map(|(name, _)| name.clone())
        .collect();
    let name = stage.random.choice(candidates)?;
    request_deletion(stage, books, &name).then(|| "deletion of a backup".to_owned())
}

/// Asks for the deletion of a backup; `false` where the API server is away.
pub(super) fn request_deletion(stage: &Stage, books: &mut Books, backup: &str) -> bool {
    let metadata = json!({"name": books.name("delete"), "namespace": stage.server.namespace()});
    let request = json!({
        "apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest", "metadata": metadata,
        "spec": {"backupName": backup},
    });
    // Without an answer it may be there all the same.
    if let Some(asked) = books.backups.get_mut(backup) {
        asked.is_to_go = true;
    }
    stage.machine.apply(&request.to_string()).is_ok()
}

fn delete_restore(stage: &mut Stage, books: &mut Books) -> Option<String> {
    let candidates: Vec<String> =
        books.restores.iter().filter(|(_, asked)| !asked.is_to_go).map(|(name, _)| name.clone()).collect();
    let name = stage.random.choice(candidates)?;
    books.restores.get_mut(&name)?.is_to_go = true;
    stage.machine.delete(&format!("{}/{name}", stage.path("restores"))).ok()?;
    Some("deletion of a restore".to_owned())
}

fn cancel(stage: &mut Stage, books: &Books) -> Option<String> {
    let plural = if stage.random.bool() { "backups" } else { "restores" };
    let has_ended = |it: &Value| it["status"]["phase"].as_str().is_some_and(|phase| backups::ENDED.contains(&phase));
    let there = stage.machine.items(&stage.path(plural)).ok()?;
    let going: Vec<&str> = there.iter().filter(|it| !has_ended(it)).map(name_of).collect();
    let known = |name: &&&str| books.backups.contains_key(**name) || books.restores.contains_key(**name);
    let name = *stage.random.choice(going.iter().filter(known).collect::<Vec<_>>())?;
    let namespace = stage.server.namespace();
    let asked = "velero.io/cancel-requested=by the torture";
    let arguments = ["-n", namespace, "annotate", "--overwrite", &format!("{plural}.velero.io"), name, asked];
    stage.machine.kubectl(&arguments).ok()?;
    Some(format!("cancellation of {plural}"))
}

/// The name of an object.
pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
