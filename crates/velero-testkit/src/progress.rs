//! One line a step on standard error, with the seconds since the start, so that a long set-up is never silent.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Tells the person in front of the terminal what happens now.
pub fn say(message: impl AsRef<str>) {
    let start = START.get_or_init(Instant::now);
    eprintln!("[{:>6.1}s] {}", start.elapsed().as_secs_f32(), message.as_ref());
}
