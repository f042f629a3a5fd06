//! `velero repo ls`

use anyhow::Result;
use serde::Serialize;
use velero_repo::Repository;
use velero_repo::browse::list_entry;
use velero_repo::directory::{DirectoryEntry, EntryKind};
use velero_repo::manifest::{Labels, Snapshot};

use super::bytes;
use super::opened::{Target, work};
use crate::arguments::RepositoryListArguments;
use crate::output::{Format, print_rows, print_value};
use crate::printer::Printer;
use crate::settings::Settings;

/// How much text is printed at once.
const BATCH: usize = 64 << 10;

/// A snapshot as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotRow {
    id: String,
    source: String,
    start_time: String,
    end_time: String,
    size: u64,
    files: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    incomplete: String,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    tags: Labels,
}

/// An entry of a snapshot as it is shown.
#[derive(Serialize)]
struct EntryRow {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    mtime: String,
    object: String,
}

/// Lists snapshots, or what is in one.
pub(crate) async fn list(settings: &Settings, printer: Printer, arguments: RepositoryListArguments) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    let place = arguments.place.clone();
    work(settings, printer, &place, move |place| {
        let repository = place.open()?;
        match &arguments.target {
            None => list_snapshots(&repository, printer, format),
            Some(target) => {
                let target = Target::find(&repository, target)?;
                list_target(&repository, &target, arguments.recursive, printer, format)
            }
        }
    })
    .await
}

fn list_snapshots(repository: &Repository, printer: Printer, format: Format) -> Result<()> {
    let snapshots: Vec<_> = repository.snapshots()?.into_iter().map(snapshot_row).collect();
    if format != Format::Table {
        return print_value(printer, &snapshots, format);
    }
    if snapshots.is_empty() {
        printer.note("The repository has no snapshots.");
    }
    let cells = |row: SnapshotRow| {
        let state = if row.incomplete.is_empty() { "complete".to_owned() } else { row.incomplete };
        vec![row.id, row.start_time, bytes(row.size), row.files.to_string(), state, row.source]
    };
    let rows = snapshots.into_iter().map(cells).collect();
    print_rows(printer, &["Snapshot", "Started", "Size", "Files", "State", "Source"], rows)
}

fn snapshot_row((id, snapshot): (String, Snapshot)) -> SnapshotRow {
    let summary = snapshot.root_entry.and_then(|root| root.summary).unwrap_or_default();
    SnapshotRow {
        id,
        source: snapshot.source.path,
        start_time: time(snapshot.start_time),
        end_time: time(snapshot.end_time),
        size: summary.size,
        files: summary.files + summary.symlinks,
        incomplete: snapshot.incomplete,
        tags: snapshot.tags,
    }
}

fn list_target(
    repository: &Repository,
    target: &Target,
    recursive: bool,
    printer: Printer,
    format: Format,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut text = String::new();
    let mut failed = None;
    let outcome = visit(repository, &target.entry, &target.path, recursive, &mut |path, entry| {
        if format != Format::Table {
            rows.push(entry_row(path, entry));
            return Ok(());
        }
        text.push_str(&line(path, entry));
        if text.len() >= BATCH
            && let Err(error) = printer.print(std::mem::take(&mut text))
        {
            failed = Some(error);
            return Err(velero_repo::Error::Canceled);
        }
        Ok(())
    });
    match failed {
        Some(error) => return Err(error),
        None => outcome?,
    }
    if format == Format::Table { printer.print(text) } else { print_value(printer, &rows, format) }
}

/// Shows the entries of a folder, or a file, with their paths in the snapshot.
fn visit(
    repository: &Repository,
    entry: &DirectoryEntry,
    path: &str,
    recursive: bool,
    show: &mut dyn FnMut(&str, &DirectoryEntry) -> velero_repo::Result<()>,
) -> velero_repo::Result<()> {
    if entry.kind != EntryKind::Directory {
        return show(path, entry);
    }
    list_entry(repository, entry, &mut |entry| {
        let below = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
        show(&below, &entry)?;
        if recursive && entry.kind == EntryKind::Directory {
            visit(repository, &entry, &below, recursive, show)?;
        }
        Ok(())
    })
}

fn entry_row(path: &str, entry: &DirectoryEntry) -> EntryRow {
    EntryRow {
        path: path.to_owned(),
        kind: match entry.kind {
            EntryKind::File => "file",
            EntryKind::Directory => "folder",
            EntryKind::Symlink => "link",
        },
        mode: format!("{:04o}", entry.mode.0),
        uid: entry.uid,
        gid: entry.gid,
        size: size(entry),
        mtime: entry.mtime.to_string(),
        object: entry.object.to_string(),
    }
}

/// A line as `ls -l` has it. A name cannot write on the terminal.
fn line(path: &str, entry: &DirectoryEntry) -> String {
    let name: String = path.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
    let DirectoryEntry { uid, gid, .. } = entry;
    format!("{} {uid:>6} {gid:>6} {:>13} {} {name}{slash}\n", mode(entry), size(entry), time(entry.mtime))
}

/// The bytes of a file, or of all files below a folder.
fn size(entry: &DirectoryEntry) -> u64 {
    entry.summary.as_ref().map_or(entry.size, |summary| summary.size)
}

fn time(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The mode in letters.
fn mode(entry: &DirectoryEntry) -> String {
    let bits = entry.mode.0;
    let kind = match entry.kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| bits >> shift & bit != 0;
        text.push(if has(4) { 'r' } else { '-' });
        text.push(if has(2) { 'w' } else { '-' });
        text.push(match (bits & special != 0, has(1)) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_shown_as_ls_shows_it_and_cannot_write_on_the_terminal() {
        for (kind, mode, expected) in [
            ("f", "0640", "-rw-r-----      7      8             3 2026-01-02T03:04:05Z a?[2Jb\n"),
            ("d", "04000777", "drwxrwxrwt      7      8             3 2026-01-02T03:04:05Z a?[2Jb/\n"),
            ("s", "060000755", "lrwsr-sr-x      7      8             3 2026-01-02T03:04:05Z a?[2Jb\n"),
            ("f", "040000600", "-rwS------      7      8             3 2026-01-02T03:04:05Z a?[2Jb\n"),
        ] {
            let json = serde_json::json!({
                "name": "b", "type": kind, "mode": mode, "size": 3, "mtime": "2026-01-02T03:04:05.6Z", "uid": 7, "gid": 8,
                "obj": "f5386b932a82749f91057cabb1f8ec1f",
            });
            let entry: DirectoryEntry = serde_json::from_str(&json.to_string()).unwrap();
            assert_eq!(line("a\u{1b}[2Jb", &entry), expected);
        }
    }
}
