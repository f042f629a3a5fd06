//! `velero repo stats`

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use velero_repo::crypto::OVERHEAD;
use velero_repo::maintenance::{SCHEDULE_BLOB, Schedule};
use velero_repo::manifest::SNAPSHOT;
use velero_repo::{Repository, compression};

use super::bytes;
use super::opened::work;
use crate::arguments::RepositoryStatsArguments;
use crate::output::{Format, print_value};
use crate::printer::Printer;
use crate::settings::Settings;

/// What is in a repository.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    place: String,
    format_version: u32,
    hash: String,
    encryption: String,
    splitter: String,
    epoch: u64,
    snapshots: u64,
    /// The bytes of all files of all snapshots.
    snapshot_bytes: u64,
    contents: Sum,
    deleted_contents: Sum,
    /// How many bytes fewer the contents take because they are compressed.
    saved_by_compression: u64,
    /// Blobs by kind.
    blobs: BTreeMap<&'static str, Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_full_maintenance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_quick_maintenance: Option<String>,
}

/// How many, and how many bytes they take in the store.
#[derive(Clone, Copy, Default, Serialize)]
struct Sum {
    count: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// Shows what is in a repository.
pub(crate) async fn stats(settings: &Settings, printer: Printer, arguments: RepositoryStatsArguments) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    let stats = work(settings, printer, &arguments.place, |place| collect(&place.open()?, &place.name)).await?;
    if format == Format::Table { printer.print(text(&stats)) } else { print_value(printer, &stats, format) }
}

fn collect(repository: &Repository, place: &str) -> Result<Stats> {
    let mut blobs: BTreeMap<&'static str, Sum> = BTreeMap::new();
    repository.store().list("", &mut |blob| {
        blobs.entry(kind(&blob.id)).or_default().add(blob.size);
        Ok(())
    })?;
    let (mut contents, mut deleted) = (Sum::default(), Sum::default());
    let mut saved_by_compression = 0;
    let loaded = repository.index();
    for entry in loaded.index.entries() {
        let entry = entry?;
        if !entry.deleted && entry.compression != compression::NONE {
            let plain = u64::from(entry.original_length) + OVERHEAD as u64;
            saved_by_compression += plain.saturating_sub(u64::from(entry.packed_length));
        }
        if entry.deleted { &mut deleted } else { &mut contents }.add(u64::from(entry.packed_length));
    }
    let (mut snapshots, mut snapshot_bytes) = (0, 0);
    for manifest in repository.manifests(&|manifest| manifest.has_labels(&[("type", SNAPSHOT)]))? {
        snapshots += 1;
        let summary = manifest.snapshot()?.root_entry.and_then(|root| root.summary);
        snapshot_bytes += summary.map_or(0, |summary| summary.size);
    }
    let schedule = Schedule::load(repository.store().as_ref(), repository.format())?;
    let maintained = blobs.contains_key(MAINTENANCE);
    let parameters = &repository.format().parameters;
    Ok(Stats {
        place: place.to_owned(),
        format_version: parameters.version,
        hash: parameters.hash.clone(),
        encryption: parameters.encryption.clone(),
        splitter: parameters.splitter.clone(),
        epoch: loaded.epochs.write_epoch,
        snapshots,
        snapshot_bytes,
        contents,
        deleted_contents: deleted,
        saved_by_compression,
        blobs,
        next_full_maintenance: maintained.then(|| schedule.next_full.to_string()),
        next_quick_maintenance: maintained.then(|| schedule.next_quick.to_string()),
    })
}

const MAINTENANCE: &str = "maintenance";

/// What a blob is, by its name.
fn kind(id: &str) -> &'static str {
    match id.as_bytes().first() {
        _ if id == SCHEDULE_BLOB => MAINTENANCE,
        _ if id.starts_with("kopia.") || id.starts_with("udmrepo.") => "format",
        _ if id.starts_with("_log_") => "logs",
        Some(b'p') => "packs with data",
        Some(b'q') => "packs with folders",
        Some(b'x') => "indexes",
        Some(b's') => "sessions",
        _ => "unknown",
    }
}

fn text(stats: &Stats) -> String {
    let sum = |sum: &Sum| format!("{}, {}", sum.count, bytes(sum.bytes));
    let mut lines = vec![
        ("Repository", stats.place.clone()),
        ("Format", format!("{} ({}, {}, {})", stats.format_version, stats.hash, stats.encryption, stats.splitter)),
        ("Epoch", stats.epoch.to_string()),
        ("Snapshots", format!("{}, {} of files", stats.snapshots, bytes(stats.snapshot_bytes))),
        ("Contents", sum(&stats.contents)),
        ("Deleted contents", sum(&stats.deleted_contents)),
        ("Saved by compression", bytes(stats.saved_by_compression)),
    ];
    lines.extend(stats.blobs.iter().map(|(kind, blobs)| (*kind, sum(blobs))));
    let never = || "never maintained".to_owned();
    lines.push(("Next full maintenance", stats.next_full_maintenance.clone().unwrap_or_else(never)));
    lines.push(("Next quick maintenance", stats.next_quick_maintenance.clone().unwrap_or_else(never)));
    lines.iter().map(|(name, value)| format!("{:<24}{value}\n", format!("{}:", capital(name)))).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
