//! Progress for a person at a terminal; nobody else sees any.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often it is looked how far the work is.
const LOOK: Duration = Duration::from_millis(100);

/// How far the work is.
pub(super) struct Done {
    /// Bytes done.
    pub(super) bytes: u64,
    /// Bytes to do; 0 while that is not known.
    pub(super) total: u64,
    /// More words.
    pub(super) words: String,
}

/// Does something, and shows meanwhile how far it is.
pub(super) fn show<T>(what: &'static str, done: impl Fn() -> Done + Send, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let bar = ProgressBar::new(0);
    bar.set_prefix(what);
    let (finished, waiting) = mpsc::channel::<()>();
    let outcome = thread::scope(|scope| {
        let shown = &bar;
        scope.spawn(move || {
            while waiting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                draw(shown, &done());
            }
        });
        let outcome = work();
        drop(finished);
        outcome
    });
    bar.finish_and_clear();
    outcome
}

fn draw(bar: &ProgressBar, done: &Done) {
    let template = match done.total {
        0 => "{prefix} {spinner} {msg} {elapsed}",
        _ => {
            "{prefix} [{wide_bar}] {percent}%, {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {eta} left {msg}"
        }
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_length(done.total);
    bar.set_position(done.bytes);
    bar.set_message(done.words.clone());
    bar.tick();
}
