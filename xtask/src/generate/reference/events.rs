//! Events, from the places in the sources where they are told.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use regex::Regex;

use super::{cell, sources};

/// `Told::normal("Reason", "note")`; the reason may be the phase, the note may be anything.
static TOLD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"Told::(normal|warning)\(\s*(?:"(\w+)"|(phase))(?:,\s*(?:format!\()?"((?:[^"\\]|\\.)*)")?"#).ok()
});
/// `events::warn(context, object, "controller", "Reason", …)`.
static WARNED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"events::warn\(\s*\w+,\s*(\w+),\s*"[^"]+",\s*"(\w+)""#).ok());
/// What is filled in when an event is told.
static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{[^}]*\}").ok());
/// A reason with what is said above it.
static REASON: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"/// ([^\n]+)\npub const DATA_PATH_\w+: &str = "(Data-Path-\w+)";"#).ok());

const FILLED_IN: &str = "…";
/// The kind an event is about, by a word in the path of the source or by what it is called there.
const KINDS: [(&str, &str); 7] = [
    ("velero-rules/src/events", "Backup, Restore"),
    ("availability", "BackupStorageLocation"),
    ("location", "BackupStorageLocation"),
    ("schedule", "Schedule"),
    ("repository", "BackupRepository"),
    ("restore", "Restore"),
    ("backup", "Backup"),
];

pub(super) fn page(root: &Path) -> Result<String> {
    let mut rows = BTreeSet::new();
    for folder in ["crates/velero-rules/src", "crates/velero-controllers/src"] {
        for (path, source) in sources::below(&root.join(folder))? {
            rows.extend(told(&path.to_string_lossy(), &source));
        }
    }
    ensure!(!rows.is_empty(), "no events were found in the sources");
    let moved = fs::read_to_string(root.join("crates/velero-api/src/records/data_path.rs"))?;
    let head = "| on | type | reason | says |\n|---|---|---|---|\n";
    Ok(format!(
        "`kubectl -n velero describe KIND NAME` shows them. {FILLED_IN} is filled in when one is told.\n\n{head}{}\n## Of \
         the data of volumes\n\nOn PodVolumeBackups, PodVolumeRestores, DataUploads and DataDownloads:\n\n| reason | meaning \
         |\n|---|---|\n{}",
        rows.into_iter().collect::<String>(),
        reasons(&moved)
    ))
}

fn told(path: &str, source: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for captures in TOLD.iter().flat_map(|told| told.captures_iter(source)) {
        let group = |number: usize| captures.get(number).map(|text| text.as_str());
        let reason = group(2).map_or("its phase".to_owned(), |reason| format!("`{reason}`"));
        rows.push(row(kind(path), if &captures[1] == "normal" { "Normal" } else { "Warning" }, &reason, group(4)));
    }
    for captures in WARNED.iter().flat_map(|warned| warned.captures_iter(source)) {
        rows.push(row(kind(&captures[1]), "Warning", &format!("`{}`", &captures[2]), None));
    }
    rows
}

fn row(kind: &str, weight: &str, reason: &str, note: Option<&str>) -> String {
    let note = note.unwrap_or(FILLED_IN);
    let note = VARIABLE.as_ref().map_or(note.into(), |variable| variable.replace_all(note, FILLED_IN));
    format!("| {kind} | {weight} | {reason} | {} |\n", cell(&note))
}

fn kind(word: &str) -> &str {
    KINDS.iter().find(|(part, _)| word.contains(part)).map_or(word, |(_, kind)| kind)
}

fn reasons(source: &str) -> String {
    let found = REASON.iter().flat_map(|reason| reason.captures_iter(source));
    let plain = |text: &str| cell(&text.replace("[`", "`").replace("`]", "`"));
    found.map(|captures| format!("| `{}` | {} |\n", &captures[2], plain(&captures[1]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_with_its_kind_weight_reason_and_note() {
        let source = r#"
            Told::normal("BackupSubmitted", note);
            Told::warning("FailedValidation", format!("no backups are made: {problems}"));
            events::warn(context, backup, "velero-backup-deletion", "RestoresEnded", "Delete", note).await;
            Told::warning(phase, format!("the {word} has failed"));
        "#;
        assert_eq!(
            told("src/schedule.rs", source),
            [
                "| Schedule | Normal | `BackupSubmitted` | … |\n",
                "| Schedule | Warning | `FailedValidation` | no backups are made: … |\n",
                "| Schedule | Warning | its phase | the … has failed |\n",
                "| Backup | Warning | `RestoresEnded` | … |\n",
            ]
        );
    }
}
