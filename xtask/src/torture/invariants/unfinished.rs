//! Work that is left: what has not ended, what is owed, what was to go and is there.

use serde_json::Value;

use super::Look;
use super::look::has_ended;
use crate::torture::books::Books;
use crate::torture::workload::name_of;

/// The notes by which a server remembers what it owes.
const DEBTS: [&str; 3] = ["velero.io/clean-up-owed", "velero.io/owed-hooks", "velero.io/retry-owed"];
/// The note of who works on one, and that of what it was asked for, which is needed only while it runs or may be gone on with.
const HOLDER: &str = "velero.io/holder-identity";
const ASKED: &str = "velero.io/asked-fields";
/// The phases in which a transfer has ended.
const TRANSFER_ENDED: [&str; 3] = ["Completed", "Failed", "Canceled"];

pub(super) fn find(books: &Books, look: &Look) -> Vec<String> {
    let mut found = Vec::new();
    for (kind, object) in objects(look) {
        let (name, status) = (name_of(object), &object["status"]);
        if !has_ended(object) {
            found.push(format!("{kind} {name} has not ended: {status}"));
        }
        let debts = DEBTS.iter().filter(|debt| object["metadata"]["annotations"][**debt].is_string());
        found.extend(debts.map(|debt| format!("{kind} {name} owes: {debt}, {status}")));
        let notes = notes_of_a_run(kind, object).into_iter();
        found.extend(notes.map(|note| format!("{kind} {name} has ended and keeps its note {note}: {status}")));
        if object["metadata"]["deletionTimestamp"].is_string() {
            found.push(format!("{kind} {name} is being deleted: {}", object["metadata"]["finalizers"]));
        }
    }
    let is_dealt_with = |request: &&Value| request["status"]["phase"] == "Processed";
    let undone = look.requests.iter().filter(|request| !is_dealt_with(request));
    found.extend(undone.map(|request| format!("a deletion is not done: {} {}", request["spec"], request["status"])));
    let backups = look.backup_names();
    let to_go = books.backups.iter().filter(|(name, asked)| asked.is_to_go && backups.contains(*name));
    found.extend(to_go.map(|(name, _)| {
        let words = look.requests.iter().filter(|request| request["spec"]["backupName"] == name.as_str());
        let words: Vec<String> = words.map(|request| request["status"].to_string()).collect();
        format!("backup {name} was to go: {words:?}")
    }));
    let restores = look.restore_names();
    let to_go = books.restores.iter().filter(|(name, asked)| asked.is_to_go && restores.contains(*name));
    found.extend(to_go.map(|(name, _)| format!("restore {name} was to go")));
    found.extend(look.transfers.iter().filter_map(|(kind, transfer)| transfer_work(kind, transfer)));
    found
}

/// The notes of its run that one keeps which has ended.
fn notes_of_a_run(kind: &str, object: &Value) -> Vec<&'static str> {
    let has = |note: &str| object["metadata"]["annotations"][note].is_string();
    let can_be_resumed = kind == "restore" && object["status"]["phase"] != "Completed";
    let mut kept = Vec::new();
    if has_ended(object) && has(HOLDER) {
        kept.push(HOLDER);
    }
    if has_ended(object) && !can_be_resumed && has(ASKED) {
        kept.push(ASKED);
    }
    kept
}

fn objects(look: &Look) -> impl Iterator<Item = (&'static str, &Value)> {
    let backups = look.backups.iter().map(|backup| ("backup", backup));
    backups.chain(look.restores.iter().map(|restore| ("restore", restore)))
}

fn transfer_work(kind: &str, transfer: &Value) -> Option<String> {
    let (name, status) = (name_of(transfer), &transfer["status"]);
    let phase = status["phase"].as_str().unwrap_or_default();
    if !TRANSFER_ENDED.contains(&phase) {
        return Some(format!("{kind} {name} has not ended: {status}"));
    }
    let finalizers = &transfer["metadata"]["finalizers"];
    finalizers.is_array().then(|| format!("{kind} {name} is kept by {finalizers}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_ended_keeps_no_note_of_its_run_but_what_a_restore_can_be_resumed_with() {
        for (kind, phase, expected) in [
            ("backup", "InProgress", vec![]),
            ("backup", "Failed", vec![HOLDER, ASKED]),
            ("restore", "Failed", vec![HOLDER]),
            ("restore", "Completed", vec![HOLDER, ASKED]),
        ] {
            let notes = json!({HOLDER: "a_1", ASKED: "{}"});
            let object = json!({"metadata": {"name": "x", "annotations": notes}, "status": {"phase": phase}});
            assert_eq!(notes_of_a_run(kind, &object), expected, "{kind} {phase}");
        }
        assert!(notes_of_a_run("backup", &json!({"status": {"phase": "Completed"}})).is_empty());
    }
}
