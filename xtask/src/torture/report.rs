//! What happened, counted, and what was found wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::output::out;

/// What is counted over all rounds.
pub(super) struct Report {
    seed: u64,
    begun: Instant,
    pub(super) rounds: usize,
    faults: BTreeMap<&'static str, usize>,
    works: BTreeMap<String, usize>,
    endings: BTreeMap<String, usize>,
    checks: BTreeMap<&'static str, usize>,
    violations: Vec<String>,
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        let [works, endings] = [BTreeMap::new(), BTreeMap::new()];
        let (faults, checks) = (BTreeMap::new(), BTreeMap::new());
        Self { seed, begun: Instant::now(), rounds: 0, faults, works, endings, checks, violations: Vec::new() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    pub(super) fn faults_named(&self, name: &str) -> usize {
        self.faults.get(name).copied().unwrap_or_default()
    }

    pub(super) fn work(&mut self, name: impl Into<String>) {
        *self.works.entry(name.into()).or_default() += 1;
    }

    pub(super) fn ending(&mut self, name: impl Into<String>) {
        *self.endings.entry(name.into()).or_default() += 1;
    }

    /// Counts something that was looked at and found as it should be.
    pub(super) fn check(&mut self, name: &'static str) {
        *self.checks.entry(name).or_default() += 1;
    }

    /// Notes something that must not be, and says so at once.
    pub(super) fn violation(&mut self, what: &str) {
        let minute = self.elapsed().as_secs() / 60;
        let told = format!("VIOLATION: seed {}, round {}, minute {minute}: {what}", self.seed, self.rounds);
        out!("{told}");
        self.violations.push(told);
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The table at the end.
    pub(super) fn print(&self) {
        let minutes = self.elapsed().as_secs_f64() / 60.0;
        out!("\nseed {}: {} rounds in {minutes:.1} minutes", self.seed, self.rounds);
        let faults = self.faults.iter().map(|(name, count)| ((*name).to_owned(), *count));
        let checks = self.checks.iter().map(|(name, count)| ((*name).to_owned(), *count));
        section("fault", faults);
        section("work", self.works.clone());
        section("ending", self.endings.clone());
        section("found as it should be", checks);
        out!("{:<44} {:>7}", "violations", self.violations.len());
        self.violations.iter().for_each(|violation| out!("{violation}"));
    }
}

fn section(title: &str, lines: impl IntoIterator<Item = (String, usize)>) {
    out!("{title:<44} {:>7}", "times");
    lines.into_iter().for_each(|(name, count)| out!("  {name:<42} {count:>7}"));
}
