//! Hostile input: valid samples are changed thousands of times, the same way in every run, and given to a parser. It may
//! refuse what it gets; it must not panic, hang, or take more memory than its bound.

mod json;
mod mutation;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub use mutation::Mutator;

/// How many changed samples a parser gets in the usual run.
pub const ROUNDS: usize = 2_000;
/// How many it gets in the thorough run.
pub const THOROUGH_ROUNDS: usize = 50_000;
/// A parser that takes longer for one input hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// How much memory a parser may take, whatever it is given: its samples have a few kilobytes.
const MOST_MEMORY: u64 = 64 << 20;

/// One at a time, so that what is measured of the process is measured of one parser.
static TURN: Mutex<()> = Mutex::new(());

/// A parser of what others wrote.
pub struct Parser {
    /// For messages, and the seed of its inputs.
    pub name: &'static str,
    /// Valid inputs.
    pub samples: Vec<Vec<u8>>,
    /// Takes an input, and whatever it is, returns.
    pub parse: fn(&[u8]),
}

impl Parser {
    /// A parser of the kept samples in a folder, named like it.
    pub fn of(folder: &'static str, parse: fn(&[u8])) -> Self {
        Self { name: folder, samples: corpus(folder), parse }
    }
}

/// Gives a parser its samples as they are, then changed.
///
/// # Panics
/// Names the input that made the parser panic, hang or take too much memory.
pub fn strike(parser: &Parser, rounds: usize) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!parser.samples.is_empty(), "{} has no samples", parser.name);
    let before = reset_peak();
    let current = Arc::new(Mutex::new(Arc::new(Vec::new())));
    let (sender, receiver) = channel();
    let (shown, parse, mut mutator) = (Arc::clone(&current), parser.parse, Mutator::new(parser.name, &parser.samples));
    let worker = move || {
        for round in 0..rounds {
            let input = Arc::new(mutator.next_input());
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&input);
            let outcome = catch_unwind(AssertUnwindSafe(|| parse(&input))).map_err(|_| round);
            let failed = outcome.is_err();
            if sender.send(outcome).is_err() || failed {
                return;
            }
        }
    };
    thread::Builder::new().name(parser.name.to_owned()).spawn(worker).expect("no thread can be started");
    let input = || describe(&current.lock().unwrap_or_else(PoisonError::into_inner));
    loop {
        match receiver.recv_timeout(LONGEST) {
            Ok(Ok(())) => {}
            Ok(Err(round)) => panic!("{} panicked at input {round}: {}", parser.name, input()),
            Err(RecvTimeoutError::Timeout) => panic!("{} hangs at {}", parser.name, input()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let taken = peak().saturating_sub(before);
    assert!(taken <= MOST_MEMORY, "{} took {taken} bytes of memory", parser.name);
}

/// The usual run and the thorough one over the parsers that a function gives.
#[macro_export]
macro_rules! strike_all {
    ($parsers:ident) => {
        #[test]
        fn thousands_of_changed_samples_are_read_or_refused() {
            for parser in $parsers() {
                $crate::hostile::strike(&parser, $crate::hostile::ROUNDS);
            }
        }

        #[test]
        #[ignore = "many times the usual run; begun with --thorough"]
        fn very_many_changed_samples_are_read_or_refused() {
            for parser in $parsers() {
                $crate::hostile::strike(&parser, $crate::hostile::THOROUGH_ROUNDS);
            }
        }
    };
}

/// The kept samples of a parser, in the order of their names: a folder of `tests/hostile/corpus`.
fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile/corpus").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).collect()
}

/// An input as a Rust literal: to be kept as a sample, or pasted into a test.
fn describe(input: &[u8]) -> String {
    const SHOWN: usize = 4096;
    let text = input[..input.len().min(SHOWN)].escape_ascii();
    let rest = if input.len() > SHOWN { format!(" and {} bytes more", input.len() - SHOWN) } else { String::new() };
    format!("b\"{text}\"{rest}")
}

/// Begins to measure anew; gives what the process has now.
fn reset_peak() -> u64 {
    // Where the kernel does not allow it, the peak of an earlier test counts for this one too, and hides what it takes.
    let _ = fs::write("/proc/self/clear_refs", "5");
    peak()
}

/// The most memory the process had since it was last reset, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser(parse: fn(&[u8])) -> Parser {
        Parser { name: "test", samples: vec![b"{\"number\": 12}".to_vec(), b"[1, 2, 3]".to_vec()], parse }
    }

    fn outcome(parse: fn(&[u8])) -> Result<(), String> {
        let struck = catch_unwind(AssertUnwindSafe(|| strike(&parser(parse), 100)));
        struck.map_err(|problem| problem.downcast_ref::<String>().cloned().unwrap_or_default())
    }

    #[test]
    fn a_parser_that_refuses_passes_and_one_that_panics_or_takes_much_is_named() {
        outcome(|input| drop(serde_json::from_slice::<serde_json::Value>(input))).unwrap();
        let panics = outcome(|input| assert!(input.first() != Some(&b'['))).unwrap_err();
        assert!(panics.starts_with("test panicked at input "), "{panics}");
        let takes = outcome(|input| {
            if input.starts_with(b"[1, 2, 3]") {
                drop(std::hint::black_box(vec![1_u8; 100 << 20]));
            }
        });
        let takes = takes.unwrap_err();
        assert!(takes.contains("bytes of memory"), "{takes}");
    }
}
