//! Work that is left: what has not ended, what is owed, what was to go and is there.

use serde_json::Value;

use super::Look;
use super::look::has_ended;
use crate::torture::books::Books;
use crate::torture::workload::name_of;

/// The notes by which a server remembers what it owes.
const DEBTS: [&str; 3] = ["velero.io/clean-up-owed", "velero.io/owed-hooks", "velero.io/retry-owed"];
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
