//! `cargo xtask torture`: a server at work, and everything that can go wrong around it, by a seed.
//!
//! ```text
//! options ── what is asked for
//! stage ── the box: a server behind proxies, agents, a plugin
//!   sources ── what there is to back up
//! plan ── what happens in a round, and when: random numbers and nothing else
//! rounds ── carries a plan out, then settles and looks
//!   workload, books ── asks for backups, restores, deletions; remembers what was asked
//!   faults ── strikes and heals
//!   settle ── time for everything to end
//!   sample ── a fresh server restores and backs up
//!   invariants ── what must be true then
//! report ── counts, violations, the table at the end
//! ```

mod books;
mod faults;
mod invariants;
mod options;
mod plan;
mod report;
mod rounds;
mod sample;
mod settle;
mod sources;
mod stage;
mod workload;

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use velero_testkit::{BoxKind, Edition, TestBox, TestCluster, harness};

use crate::output::out;
use faults::Fault;
pub(crate) use options::Options;
use plan::{Deck, Plan};
use rounds::Rounds;
use stage::Stage;

const BOX: &str = "torture";
/// How many kills a round has where nothing else is struck, and after how many rounds a fresh server works.
const KILLS_A_ROUND: usize = 20;
const SAMPLE_EVERY: usize = 4;

/// Runs until the time is over or something is wrong. What is wrong is left as it is.
pub(crate) fn run(options: &Options) -> Result<()> {
    Edition::Ours.install()?;
    // What a run that broke off left would count as this run's.
    TestBox::down(BOX)?;
    let kind = if options.is_kills() { BoxKind::ControlPlane } else { BoxKind::Storage };
    let test_box = TestBox::up(BOX, kind)?;
    let (wanted, kept) = (options.clone(), test_box.machine().folder("torture")?);
    let outcome = harness::inside(test_box, async move |cluster| torture(cluster, &wanted).await);
    let violations = match outcome {
        Ok(violations) => violations,
        Err(problem) => {
            out!("the box stays up: eval \"$(cargo xtask cluster env --name {BOX})\"");
            return Err(problem.context(format!("seed {}: the torture broke off", options.seed)));
        }
    };
    if violations.is_empty() {
        return if options.keep { Ok(()) } else { TestBox::down(BOX) };
    }
    fs::write(kept.join("violations"), violations.join("\n"))?;
    out!("the box stays up: eval \"$(cargo xtask cluster env --name {BOX})\"; logs: {}", kept.display());
    bail!("seed {}: {} violations", options.seed, violations.len())
}

async fn torture(cluster: TestCluster, options: &Options) -> Result<Vec<String>> {
    let stage = Stage::start(cluster, options).await?;
    let mut deck = Deck::of(&chosen(options, stage.has_node())?);
    let mut rounds = Rounds::new(stage, options.seed);
    workload::base(&rounds.stage, &mut rounds.books)?;
    workload::schedule(&rounds.stage)?;
    // Of their own: what is drawn while a round goes on depends on what is there then.
    let mut random = rounds.stage.random.fork();
    while options.goes_on(rounds.report.elapsed(), rounds.report.faults_named(Fault::KillServer.name())) {
        let plan = match options.kills {
            Some(_) => Plan::of_kills(&mut random, KILLS_A_ROUND),
            None => Plan::of_faults(&mut random, &mut deck),
        };
        let samples = !options.is_kills() || rounds.report.rounds % SAMPLE_EVERY == SAMPLE_EVERY - 1;
        let outcome = rounds.round(&plan, samples);
        if outcome.is_err() || !rounds.report.violations().is_empty() {
            rounds.report.print();
            let kept = keep_objects(&rounds.stage);
            // An API server that is away is what broke the round, and keeps the objects to itself.
            outcome.and(kept)?;
            return Ok(rounds.report.violations().to_vec());
        }
        deck.put_back(rounds.missed.drain(..));
    }
    rounds.report.print();
    rounds.stage.server.stop()?;
    Ok(Vec::new())
}

/// The faults that strike.
fn chosen(options: &Options, has_node: bool) -> Result<Vec<Fault>> {
    let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    for name in &options.only {
        ensure!(known.contains(&name.as_str()), "--only: there is no fault {name:?}, there are {}", known.join(", "));
    }
    let is_wanted = |fault: &Fault| options.only.is_empty() || options.only.iter().any(|name| name == fault.name());
    Ok(Fault::ALL.into_iter().filter(|fault| (has_node || !fault.needs_node()) && is_wanted(fault)).collect())
}

/// Keeps the objects of Velero as they are.
fn keep_objects(stage: &Stage) -> Result<()> {
    for plural in [
        "backups",
        "restores",
        "deletebackuprequests",
        "schedules",
        "podvolumebackups",
        "podvolumerestores",
        "datauploads",
        "datadownloads",
    ] {
        let list = stage.machine.read(&stage.path(plural)).with_context(|| format!("cannot keep the {plural}"))?;
        fs::write(stage.kept.join(format!("{plural}.json")), serde_json::to_vec_pretty(&list)?)?;
    }
    fs::copy(stage.server.log(), stage.kept.join("server-last.log"))?;
    Ok(())
}
