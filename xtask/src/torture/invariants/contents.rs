//! Whether what is Completed is whole, and whether what was asked for is there.

use anyhow::Result;
use serde_json::Value;
use velero_testkit::parts::BUCKET;
use velero_tests::backups;

use super::Look;
use crate::torture::books::Books;
use crate::torture::stage::Stage;

/// What was asked for, and neither is there nor was to go.
pub(super) fn lost(books: &Books, look: &Look) -> Vec<String> {
    let (backups, restores) = (look.backup_names(), look.restore_names());
    let is_lost = |name: &String, is_sure: bool, is_to_go: bool| is_sure && !is_to_go && !backups.contains(name);
    let mut found: Vec<String> = books
        .backups
        .iter()
        .filter(|(name, asked)| is_lost(name, asked.is_sure, asked.is_to_go))
        .map(|(name, _)| format!("backup {name} is lost"))
        .collect();
    let of_gone = |backup: &String| books.backups.get(backup).is_none_or(|asked| asked.is_to_go);
    let lost = books.restores.iter().filter(|(name, asked)| {
        asked.is_sure && !asked.is_to_go && !of_gone(&asked.backup) && !restores.contains(*name)
    });
    found.extend(lost.map(|(name, _)| format!("restore {name} is lost")));
    let unknown = backups.iter().filter(|name| !books.backups.contains_key(*name));
    found.extend(unknown.map(|name| format!("nobody has asked for backup {name}")));
    found
}

/// What is wrong with one backup or restore that has ended.
pub(super) fn find(stage: &Stage, books: &Books, name: &str, object: &Value, is_backup: bool) -> Result<Vec<String>> {
    let status = &object["status"];
    let kind = if is_backup { "backup" } else { "restore" };
    let mut found = Vec::new();
    match status["phase"].as_str().unwrap_or_default() {
        "Completed" if is_backup => {
            let Some(asked) = books.backups.get(name) else { return Ok(found) };
            found = missing_in_archive(stage, asked.source, name)?;
        }
        "Completed" => {
            let Some(asked) = books.restores.get(name) else { return Ok(found) };
            found = stage.sources[asked.source].missing_in(&stage.machine, &asked.target)?;
        }
        "PartiallyFailed" if status["errors"].as_u64().unwrap_or_default() == 0 => {
            found.push(format!("it has no errors: {status}"));
        }
        "Failed" if status["failureReason"].as_str().unwrap_or_default().is_empty() => {
            found.push(format!("it has no reason: {status}"));
        }
        "FailedValidation" if !status["validationErrors"].is_array() => {
            found.push(format!("it has no reason: {status}"));
        }
        _ => {}
    }
    Ok(found.into_iter().map(|wrong| format!("{kind} {name}: {wrong}")).collect())
}

fn missing_in_archive(stage: &Stage, source: usize, name: &str) -> Result<Vec<String>> {
    let source = &stage.sources[source];
    let archive = match backups::archive(&stage.machine, BUCKET, &stage.prefix, name) {
        Ok(archive) => archive,
        Err(problem) => return Ok(vec![format!("its archive cannot be read: {problem:#}")]),
    };
    let mut found = Vec::new();
    for ((plural, object), data) in &source.contents {
        let path = format!("resources/{plural}/namespaces/{}/{object}.json", source.namespace);
        let held = archive.get(&path).map(|bytes| serde_json::from_slice::<Value>(bytes)).transpose()?;
        let held = held.unwrap_or_default();
        if held["data"] != *data {
            found.push(format!("{path} of the archive is {held}"));
        }
    }
    Ok(found)
}
