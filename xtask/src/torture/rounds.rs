//! A round: work and faults by plan, then time to settle, then a look at what is true.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use velero_testkit::progress::say;

use super::books::Books;
use super::faults::Fault;
use super::invariants::{self, Look, Secrets};
use super::plan::{Happening, Plan};
use super::report::Report;
use super::stage::Stage;
use super::{sample, settle};

/// How often a server that has ended by itself is looked for, and whoever comes and goes and is to be struck.
const A_LOOK_EVERY: Duration = Duration::from_millis(500);
/// What the table calls a fault that struck nobody.
const NOBODY: &str = "(nobody there to strike)";

/// Everything that goes from round to round.
pub(super) struct Rounds {
    pub(super) stage: Stage,
    pub(super) books: Books,
    pub(super) report: Report,
    /// The faults that found nobody to strike, of those whose victims come and go.
    pub(super) missed: Vec<Fault>,
    secrets: Secrets,
}

impl Rounds {
    pub(super) fn new(stage: Stage, seed: u64) -> Self {
        let (books, report, secrets) = (Books::default(), Report::new(seed), Secrets::default());
        Self { stage, books, report, missed: Vec::new(), secrets }
    }

    /// Carries out a round; `samples` says whether it ends with work by a fresh server. What is wrong is in the report.
    pub(super) fn round(&mut self, plan: &Plan, samples: bool) -> Result<()> {
        self.report.rounds += 1;
        let (round, faults) = (self.report.rounds, struck(plan));
        say(format!("round {round}: {} pieces of work, {faults}", plan.works().count()));
        self.strike(plan)?;
        let begun = Instant::now();
        let left = settle::settle(&mut self.stage, &mut self.books, &mut self.report)?;
        left.iter().for_each(|what| self.report.violation(what));
        self.check()?;
        if samples && self.report.violations().is_empty() {
            sample::take(&mut self.stage, &mut self.books, &mut self.report)?;
        }
        settle::clear_targets(&self.stage, &self.books);
        say(format!("round {round} has settled in {} s", begun.elapsed().as_secs()));
        Ok(())
    }

    /// Carries out what a plan says, each at its moment.
    fn strike(&mut self, plan: &Plan) -> Result<()> {
        let (begun, mut awaited) = (Instant::now(), Vec::new());
        for (at, what) in &plan.0 {
            while let Some(rest) = at.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) {
                sleep(rest.min(A_LOOK_EVERY));
                self.watch_over_server()?;
                self.strike_who_came(&mut awaited)?;
            }
            match what {
                Happening::Begin(work) => {
                    if let Some(begun) = work.begin(&mut self.stage, &mut self.books) {
                        self.report.work(begun);
                    }
                }
                Happening::Strike(fault) => {
                    let struck = fault.strike(&mut self.stage).with_context(|| fault.name())?;
                    if !struck && fault.needs_node() {
                        awaited.push(*fault);
                    } else {
                        self.report.fault(if struck { fault.name() } else { NOBODY });
                    }
                }
                Happening::Heal(fault) => fault.heal(&mut self.stage).with_context(|| fault.name())?,
            }
        }
        awaited.iter().for_each(|_| self.report.fault(NOBODY));
        self.missed.extend(awaited);
        for fault in Fault::ALL {
            fault.heal(&mut self.stage).with_context(|| fault.name())?;
        }
        self.stage.api.clear();
        self.stage.store.clear();
        Ok(())
    }

    /// Strikes those that were not there when it was their turn, and are now.
    fn strike_who_came(&mut self, awaited: &mut Vec<Fault>) -> Result<()> {
        for fault in std::mem::take(awaited) {
            if fault.strike(&mut self.stage).with_context(|| fault.name())? {
                self.report.fault(fault.name());
            } else {
                awaited.push(fault);
            }
        }
        Ok(())
    }

    fn watch_over_server(&mut self) -> Result<()> {
        if self.stage.watch_over_server()? {
            self.report.fault("(server ended by itself)");
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        let look = Look::take(&self.stage)?;
        let Self { stage, books, report, secrets, .. } = self;
        // A schedule may have made one since everything had settled.
        settle::adopt(stage, books, &look);
        let wrong = invariants::untrue(stage, books, &look, secrets, report)?;
        wrong.iter().for_each(|what| report.violation(what));
        books.forget(&look.backup_names(), &look.restore_names());
        Ok(())
    }
}

/// The faults of a plan, for people.
fn struck(plan: &Plan) -> String {
    let names = plan.0.iter().filter_map(|(_, what)| match what {
        Happening::Strike(fault) => Some(fault.name()),
        _ => None,
    });
    names.collect::<Vec<_>>().join(" ")
}
