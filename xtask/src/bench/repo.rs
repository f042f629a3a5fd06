//! Volumes into repositories and back: by us and by Velero's own packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::progress::say;

use super::repo_data::{Volume, Volumes};
use super::repo_place::{self, Place, Side};
use super::{Output, peak_memory, ratio, rounded};
use crate::output::out;

#[derive(Args, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    volumes: Volumes,
    /// How often everything is done, each time into new repositories; the fastest counts
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Where volumes and repositories are kept meanwhile; a disk that is not the bottleneck shows most
    #[arg(long)]
    folder: Option<PathBuf>,
    /// How much later every request arrives at S3
    #[arg(long, default_value_t = 5)]
    latency_ms: u64,
    /// Measures repositories in folders only
    #[arg(long, conflicts_with = "only_s3")]
    only_folder: bool,
    /// Measures repositories in S3 only
    #[arg(long)]
    only_s3: bool,
    /// The profile our program is built with
    #[arg(long, default_value = "release")]
    profile: String,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let ours = repo_place::ours(&options.profile)?;
    let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = parent.join(format!("velero-bench-repo-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let outcome = everywhere(options, &ours, &folder);
    fs::remove_dir_all(&folder)?;
    if options.output == Output::Table {
        out!("{:<44}{:>22}{:>22}{:>8}", "", "ours s / CPU / MiB", "peer s / CPU / MiB", "ratio");
    }
    outcome?.iter().for_each(|row| print(row, options.output));
    Ok(())
}

/// In folders, then in a bucket.
fn everywhere(options: &Options, ours: &Path, folder: &Path) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    if !options.only_s3 {
        all.extend(rows(options, &Place::Folder, ours, folder)?);
    }
    if !options.only_folder {
        let bucket = Place::bucket(Duration::from_millis(options.latency_ms))?;
        let found = rows(options, &bucket, ours, folder);
        bucket.remove()?;
        all.extend(found?);
    }
    Ok(all)
}

/// All rows of a place, the best of the rounds each.
fn rows(options: &Options, place: &Place, ours: &Path, folder: &Path) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for volume in options.volumes.list() {
        let mut rounds: Vec<Vec<[Value; 2]>> = Vec::new();
        for round in 1..=options.rounds.max(1) {
            say(format!("{}, {}: round {round} of {}", place.name(), volume.name(), options.rounds));
            let folder = folder.join(format!("{}-{round}", volume.name().replace(' ', "-")));
            rounds.push(stages(place, ours, volume, &folder)?);
        }
        for (number, stage) in Stage::ALL.into_iter().enumerate() {
            let side = |side: usize| best(rounds.iter().filter_map(|round| Some(&round.get(number)?[side])));
            let (ours, peer) = (side(0)?, side(1)?);
            let work = format!("{}: {}, {}", place.name(), volume.name(), stage.name());
            rows.push(json!({"work": work, "ratio": ratio(&ours, &peer)?, "ours": ours, "peer": peer}));
        }
    }
    Ok(rows)
}

/// What is done with a volume, in this order.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Backup,
    Unchanged,
    Changed,
    Restore,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Backup, Self::Unchanged, Self::Changed, Self::Restore];

    fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Unchanged => "unchanged",
            Self::Changed => "one percent changed",
            Self::Restore => "restore",
        }
    }
}

/// All stages of one volume; one repository a side, and the same data for both.
fn stages(place: &Place, ours: &Path, volume: Volume, folder: &Path) -> Result<Vec<[Value; 2]>> {
    let data = folder.join("volume");
    volume.make(&data)?;
    for side in Side::BOTH {
        measure(place.command(side, ours, folder)?.arg("create"))?;
    }
    let mut snapshots = [String::new(), String::new()];
    let mut figures = Vec::new();
    for stage in Stage::ALL {
        if stage == Stage::Changed {
            volume.change(&data)?;
        }
        let mut both = Vec::new();
        for (side, snapshot) in Side::BOTH.into_iter().zip(&mut snapshots) {
            let mut command = place.command(side, ours, folder)?;
            let target = folder.join("target");
            if stage == Stage::Restore {
                command.args(["restore", snapshot]).arg(&target);
            } else {
                command.arg("backup").arg(&data).arg("bench/volume");
            }
            let (figures, answer) = measure(&mut command)?;
            snapshot.clone_from(&answer["snapshot"].as_str().unwrap_or_default().to_owned());
            both.push(figures);
            if stage == Stage::Restore {
                volume.compare(&data, &target)?;
                fs::remove_dir_all(&target)?;
            }
        }
        figures.push(both.try_into().map_err(|_| anyhow::anyhow!("two sides are measured"))?);
    }
    fs::remove_dir_all(folder)?;
    Ok(figures)
}

/// Runs a command; gives its figures and its answer.
fn measure(command: &mut Command) -> Result<(Value, Value)> {
    let program = command.get_program().to_owned();
    let start = Instant::now();
    let mut process = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {program:?}"))?;
    let (mut peak, mut processor) = (0, 0.0);
    while !has_ended(&process, &mut processor)? {
        peak = peak.max(peak_memory(process.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stdout.take().context("no output")?, &mut said)?;
    let status = process.wait()?;
    ensure!(status.success(), "{command:?} failed: {status} {said}");
    let figures = json!({"seconds": rounded(seconds), "cpu_seconds": rounded(processor), "peak_rss_mib": peak});
    Ok((figures, serde_json::from_str(&said).with_context(|| format!("{program:?} said {said:?}"))?))
}

/// Whether a child has ended and only waits to be asked; and the processor time of all its threads so far.
fn has_ended(process: &Child, processor: &mut f64) -> Result<bool> {
    /// What the kernel counts in, on every platform we run on.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    // The name of the program comes before and may hold anything.
    let (_, stat) = stat.rsplit_once(") ").context("no state of the process")?;
    let fields: Vec<&str> = stat.split(' ').collect();
    let ticks = |number: usize| fields.get(number).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    *processor = (ticks(11) + ticks(12)) / TICKS;
    Ok(fields.first() == Some(&"Z"))
}

/// The fastest round, with the memory of the hungriest.
fn best<'r>(rounds: impl Iterator<Item = &'r Value> + Clone) -> Result<Value> {
    let seconds = |round: &&Value| round["seconds"].as_f64().unwrap_or(f64::MAX);
    let fastest = rounds.clone().min_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    let peak = rounds.filter_map(|round| round["peak_rss_mib"].as_u64()).max();
    let mut best = fastest.context("nothing measured")?.clone();
    best["peak_rss_mib"] = json!(peak);
    Ok(best)
}

fn print(row: &Value, output: Output) {
    if output == Output::Json {
        out!("{row}");
        return;
    }
    let side = |side: &str| {
        let figures = &row[side];
        format!("{} / {} / {}", figures["seconds"], figures["cpu_seconds"], figures["peak_rss_mib"])
    };
    let work = row["work"].as_str().unwrap_or_default();
    out!("{work:<44}{:>22}{:>22}{:>8}", side("ours"), side("peer"), row["ratio"].to_string());
}
