//! Running the suites side by side: as many as the cores can take, and never two that hold the same shared box.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use velero_testkit::progress::say;
use velero_testkit::{TestBox, install};

use super::Options;
use super::cores::Cores;
use super::suites::Suite;
use crate::output::out;

/// How many suites a core runs at most, if all of them wait. There may be two boxes and more to a suite, and sixteen in all.
const MOST_A_CORE: usize = 2;
/// How often it is looked whether there is room for one more.
const A_LOOK_EVERY: Duration = Duration::from_secs(5);
/// No suite takes this long, unless it hangs.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Nor this long with all its long comparisons.
const LONGEST_THOROUGH: Duration = Duration::from_secs(3 * 60 * 60);
const A_LINE_EVERY: Duration = Duration::from_secs(60);
const SLOWEST: usize = 12;
/// How much of what a failed suite said is repeated at the end.
const LONGEST_WORDS: usize = 3000;
const LONGEST_LINE: usize = 600;

/// Where more suites than this fail, it is not because of what ran beside them.
const MOST_RUN_AGAIN: usize = 4;

/// A suite that has ended.
struct Ended {
    suite: Suite,
    took: Duration,
    outcome: Result<()>,
}

/// Runs all suites, whatever fails; gives what failed. A shared box that nobody needs any more goes, unless all are kept.
pub(super) fn run(mut waiting: Vec<Suite>, options: &Options) -> Vec<Error> {
    let count = waiting.len();
    let (sender, ends) = channel();
    let mut running: Vec<(String, BTreeSet<&'static str>, Instant)> = Vec::new();
    let mut ended: Vec<Ended> = Vec::new();
    let mut next_line = Instant::now() + A_LINE_EVERY;
    let mut cores = Cores::new();
    while ended.len() < count {
        while let Some(next) = {
            let held = running.iter().flat_map(|(_, holds, _)| holds).copied().collect();
            let has_room = has_room(running.len(), &mut cores);
            if has_room { next(&waiting, &held) } else { next_of_the_row(&waiting, &held, running.len()) }
        } {
            let suite = waiting.remove(next);
            running.push((suite.name.clone(), suite.holds.clone(), Instant::now()));
            begin(suite, options.thorough, sender.clone());
        }
        match ends.recv_timeout(A_LOOK_EVERY.min(next_line.saturating_duration_since(Instant::now()))) {
            Ok(end) => {
                running.retain(|(name, ..)| *name != end.suite.name);
                if !options.keep {
                    take_down_unless_needed(&end.suite.holds, &waiting);
                }
                ended.push(end);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < next_line => {}
            Err(RecvTimeoutError::Timeout) => {
                let names = running.iter().map(|(name, _, since)| format!("{name} ({} s)", since.elapsed().as_secs()));
                let names = names.collect::<Vec<_>>().join(", ");
                say(format!("{} of {count} suites have ended; running: {names}", ended.len()));
                next_line += A_LINE_EVERY;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    report(&mut ended);
    let failed: Vec<(Suite, Error)> =
        ended.into_iter().filter_map(|ended| ended.outcome.err().map(|error| (ended.suite, error))).collect();
    if options.once_more && failed.len() <= MOST_RUN_AGAIN {
        return failed.into_iter().filter_map(|(suite, error)| once_more(&suite, &error, options)).collect();
    }
    failed.into_iter().map(|(_, error)| error).collect()
}

/// Runs a suite that failed beside others again, alone; gives why it failed, if it does so again. What it said the first time is
/// told in any case: a suite that cannot be relied on has a defect, or has found one.
fn once_more(suite: &Suite, error: &Error, options: &Options) -> Option<Error> {
    say(format!("once more, alone, since it is not sure whether the others were in its way: {error:#}"));
    let outcome = run_one(suite, options.thorough);
    if !options.keep {
        take_down_unless_needed(&suite.holds, &[]);
    }
    if outcome.is_ok() {
        say(format!("UNSTEADY: {} failed beside others and passed alone; look into it", suite.name));
    }
    outcome.err()
}

/// Whether one more suite may begin.
fn has_room(running: usize, cores: &mut Cores) -> bool {
    // Some of their time suites wait for a cluster: one more than there are cores runs in any case. More at once are not sooner done.
    running <= Cores::count() || running <= Cores::count() * MOST_A_CORE && cores.were_idle()
}

/// The first that needs nothing that is held. Those that need the same box go one after another, so the box that most wait for is
/// never left idle: else they would go on alone when all others have ended.
fn next(waiting: &[Suite], held: &BTreeSet<&'static str>) -> Option<usize> {
    for_most_wanted(waiting, held).or_else(|| waiting.iter().position(|suite| suite.holds.is_disjoint(held)))
}

/// The same where there is no room: those that wait in a row for one box have a lane of their own, which others do not fill.
fn next_of_the_row(waiting: &[Suite], held: &BTreeSet<&'static str>, running: usize) -> Option<usize> {
    if running > Cores::count() + 1 { None } else { for_most_wanted(waiting, held) }
}

/// The first that needs the box that most wait for, unless that is held.
fn for_most_wanted(waiting: &[Suite], held: &BTreeSet<&'static str>) -> Option<usize> {
    let wanted = most_wanted(waiting).filter(|name| !held.contains(name))?;
    waiting.iter().position(|suite| suite.holds.is_disjoint(held) && suite.holds.contains(wanted))
}

/// The box that most suites wait for.
fn most_wanted(waiting: &[Suite]) -> Option<&'static str> {
    let boxes: BTreeSet<&'static str> = waiting.iter().flat_map(|suite| &suite.holds).copied().collect();
    boxes.into_iter().max_by_key(|name| waiting.iter().filter(|suite| suite.holds.contains(name)).count())
}

/// A cluster takes a part of a core also when nobody uses it.
fn take_down_unless_needed(boxes: &BTreeSet<&'static str>, waiting: &[Suite]) {
    for name in boxes.iter().filter(|name| !waiting.iter().any(|suite| suite.holds.contains(*name))) {
        if let Err(error) = TestBox::down(name) {
            say(format!("the box {name} stays: {error:#}"));
        }
    }
}

fn begin(suite: Suite, thorough: bool, sender: Sender<Ended>) {
    thread::spawn(move || {
        let start = Instant::now();
        let outcome = run_one(&suite, thorough);
        let took = start.elapsed();
        // Whoever waits for the end waits as long as anything runs.
        let _ = sender.send(Ended { suite, took, outcome });
    });
}

/// Runs a suite and shows what it printed when it has ended, so that the lanes do not talk over each other.
fn run_one(suite: &Suite, thorough: bool) -> Result<()> {
    let path = output_of(&suite.name)?;
    let file = File::create(&path)?;
    let mut command = Command::new(&suite.executable);
    // The words of a failure say where it is; hundreds of lines of a backtrace would bury them.
    command.current_dir(&suite.folder).env(install::BINARIES_ARE_BUILT, "yes").env("RUST_BACKTRACE", "0");
    if thorough {
        command.arg("--include-ignored");
    }
    if !suite.tests.is_empty() {
        command.arg("--exact").args(&suite.tests);
    }
    let child = command.stdout(file.try_clone()?).stderr(file).spawn();
    let mut child = child.with_context(|| format!("{} cannot be run", suite.executable.display()))?;
    let longest = if thorough { LONGEST_THOROUGH } else { LONGEST };
    let deadline = Instant::now() + longest;
    let status: Option<ExitStatus> = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(50));
    };
    let printed = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    out!("\n     Running {}\n{printed}", suite.name);
    match status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(anyhow!("{} failed:\n{}", suite.name, failures(&printed))),
        None => bail!("{} was ended because it ran for {longest:?}", suite.name),
    }
}

fn output_of(name: &str) -> Result<PathBuf> {
    let folder = install::target_folder().join("test-output");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(name.replace(' ', "-")))
}

/// What the tests that failed said, out of what the binary printed. It stands at the end of everything, where whoever
/// reads only the end finds it.
fn failures(printed: &str) -> String {
    let told = printed.split_once("\nfailures:\n").map_or(printed, |(_, told)| told);
    let told = told.split_once("\nfailures:\n").map_or(told, |(told, _)| told).trim();
    let (mut text, mut left) = (String::new(), LONGEST_WORDS);
    for line in told.lines().filter(|line| !line.is_empty() && !line.starts_with("note: run with")) {
        let line: String = line.chars().take(LONGEST_LINE).collect();
        left = left.saturating_sub(line.len());
        if left == 0 {
            text += "    …\n";
            break;
        }
        text += &format!("    {line}\n");
    }
    text
}

/// What took longest.
fn report(ended: &mut [Ended]) {
    ended.sort_by_key(|ended| std::cmp::Reverse(ended.took));
    out!("\nThe slowest of {} suites:", ended.len());
    for Ended { suite, took, .. } in ended.iter().take(SLOWEST) {
        let boxes = suite.holds.iter().copied().collect::<Vec<_>>().join(", ");
        out!("{:>6.0} s  {}  {boxes}", took.as_secs_f32(), suite.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(name: &str, holds: &[&'static str]) -> Suite {
        Suite {
            name: name.to_owned(),
            executable: PathBuf::new(),
            tests: Vec::new(),
            folder: PathBuf::new(),
            holds: holds.iter().copied().collect(),
        }
    }

    #[test]
    fn no_two_suites_hold_the_same_box_at_once() {
        let waiting = [suite("a", &["test"]), suite("b", &["test", "storage"]), suite("c", &[])];
        let next = |held: &[&'static str]| next(&waiting, &held.iter().copied().collect());
        assert_eq!(next(&[]), Some(0));
        assert_eq!(next(&["storage"]), Some(0));
        assert_eq!(next(&["test"]), Some(2));
    }

    #[test]
    fn the_box_that_most_wait_for_is_never_idle() {
        let waiting = [suite("a", &[]), suite("b", &["storage"]), suite("c", &["test"]), suite("d", &["test"])];
        let next = |held: &[&'static str]| next(&waiting, &held.iter().copied().collect());
        assert_eq!(next(&[]), Some(2));
        assert_eq!(next(&["test"]), Some(0));
        let of_the_row =
            |held: &[&'static str], running: usize| next_of_the_row(&waiting, &held.iter().copied().collect(), running);
        let full = Cores::count() + 1;
        assert_eq!(of_the_row(&["storage"], full), Some(2), "whatever else runs");
        assert_eq!(of_the_row(&["storage"], full + 1), None);
        assert_eq!(of_the_row(&["test"], full), None);
        assert_eq!(most_wanted(&[suite("a", &[])]), None);
    }

    #[test]
    fn what_failed_is_repeated_with_its_words() {
        let printed = "running 2 tests\ntest a_thing_holds ... ok\ntest b::another ... FAILED\n\nfailures:\n\n\
                       ---- b::another stdout ----\n\nthread 'main' panicked at b.rs:1:1:\nno such thing\n\
                       note: run with `RUST_BACKTRACE=1`\n\nfailures:\n    b::another\n\ntest result: FAILED.";
        let words = "    ---- b::another stdout ----\n    thread 'main' panicked at b.rs:1:1:\n    no such thing\n";
        assert_eq!(failures(printed), words);
        assert_eq!(failures("signal: 9\n"), "    signal: 9\n");
    }
}
