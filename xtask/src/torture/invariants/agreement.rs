//! Whether status, results file, log and list of items say the same, and the metrics with them.

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use velero_testkit::parts::BUCKET;
use velero_tests::backups;

use super::Secrets;
use crate::torture::stage::Stage;

/// What disagrees about one backup or restore that has ended.
pub(super) fn find(
    stage: &Stage,
    name: &str,
    object: &Value,
    is_backup: bool,
    secrets: &mut Secrets,
) -> Result<Vec<String>> {
    let status = &object["status"];
    let (kind, folder) = if is_backup { ("backup", "backups") } else { ("restore", "restores") };
    let stem = if is_backup { name.to_owned() } else { format!("restore-{name}") };
    let read = |file: &str| -> Result<Option<String>> {
        let key = format!("{}/{folder}/{name}/{stem}-{file}", stage.prefix);
        let content = backups::object(&stage.machine, BUCKET, &key)?;
        content.map(|content| unpacked(&content).with_context(|| key)).transpose()
    };
    let mut found = Vec::new();
    let log = read("logs.gz")?;
    found.extend(secrets.in_text(&format!("the log of {kind} {name}"), log.as_deref().unwrap_or_default()));
    if !matches!(status["phase"].as_str(), Some("Completed" | "PartiallyFailed")) {
        return Ok(found);
    }
    let told = |field: &str| status[field].as_u64().unwrap_or_default() as usize;
    let results = read("results.gz")?.map(|text| serde_json::from_str::<Value>(&text)).transpose()?;
    for (field, level) in [("errors", "error"), ("warnings", "warning")] {
        let listed = results.as_ref().map(|results| messages(&results[field]));
        let (different, logged) = logged(log.as_deref().unwrap_or_default(), level);
        let told = told(field);
        if listed != Some(told) || told < different || told > logged {
            found.push(format!(
                "{kind} {name} has {told} {field}, {listed:?} in its results, {logged} in its log, {different} of them different"
            ));
        }
    }
    if is_backup {
        found.extend(stored_otherwise(stage, name, status)?);
        let listed = read("resource-list.json.gz")?.map(|text| serde_json::from_str::<Value>(&text)).transpose()?;
        let listed = listed.map(|listed| messages(&listed));
        let told = status["progress"]["itemsBackedUp"].as_u64().unwrap_or_default() as usize;
        if listed != Some(told) {
            found.push(format!("backup {name} has {told} items, its list has {listed:?}"));
        }
    }
    Ok(found)
}

/// What the metadata in the bucket say of how a backup ended, and its status does not: other clusters read them alone.
fn stored_otherwise(stage: &Stage, name: &str, status: &Value) -> Result<Vec<String>> {
    let key = format!("{}/backups/{name}/velero-backup.json", stage.prefix);
    let Some(content) = backups::object(&stage.machine, BUCKET, &key)? else {
        return Ok(vec![format!("backup {name} has no metadata in the bucket")]);
    };
    let stored = match serde_json::from_slice::<Value>(&content) {
        Ok(stored) => stored["status"].clone(),
        Err(problem) => return Ok(vec![format!("the metadata of backup {name} cannot be read: {problem}")]),
    };
    let wrong = differences(&stored, status).into_iter();
    Ok(wrong.map(|wrong| format!("backup {name} is stored otherwise: {wrong}")).collect())
}

/// In which figures two statuses differ.
fn differences(stored: &Value, status: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if stored["phase"] != status["phase"] {
        found.push(format!("{} and not {}", stored["phase"], status["phase"]));
    }
    for field in ["errors", "warnings"] {
        let [stored, told] = [stored, status].map(|of| of[field].as_u64().unwrap_or_default());
        if stored != told {
            found.push(format!("{stored} {field} and not {told}"));
        }
    }
    found
}

/// How many lines of a level a log has that differ by more than their time, and how many in all: a server that was killed while it
/// added to a log may have said something that the next one says again.
fn logged(log: &str, level: &str) -> (usize, usize) {
    let word = format!(" level={level} ");
    let lines: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once(&word)?.1)).collect();
    let different: BTreeSet<&str> = lines.iter().copied().collect();
    (different.len(), lines.len())
}

/// How many texts there are in the lists of a document, however deep.
fn messages(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.values().map(messages).sum(),
        _ => 0,
    }
}

/// What is in a compressed file.
pub(super) fn unpacked(content: &[u8]) -> Result<String> {
    let mut text = String::new();
    MultiGzDecoder::new(content).read_to_string(&mut text)?;
    Ok(text)
}

/// What the server of a stage counts in all series that begin so, such as `velero_restore_success_total{`.
pub(in crate::torture) fn metric(stage: &Stage, series: &str) -> Result<f64> {
    let text = stage.machine.run("curl", ["--silent", "--fail", "http://127.0.0.1:8086/metrics"])?;
    let values = text.lines().filter(|line| line.starts_with(series)).filter_map(|line| line.rsplit(' ').next());
    let values: Vec<f64> =
        values.map(|value| value.parse::<f64>().context(series.to_owned())).collect::<Result<_>>()?;
    ensure!(!values.is_empty(), "no metric {series}");
    Ok(values.iter().sum())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_that_is_not_told_is_none() {
        let status = json!({"phase": "Completed"});
        assert!(differences(&json!({"phase": "Completed", "errors": 0, "version": 1}), &status).is_empty());
        let stored = json!({"phase": "PartiallyFailed", "errors": 2});
        assert_eq!(differences(&stored, &status), [r#""PartiallyFailed" and not "Completed""#, "2 errors and not 0"]);
    }
}
