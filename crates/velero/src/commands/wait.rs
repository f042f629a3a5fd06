//! Waiting for a backup or restore to end.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep};
use velero_api::resource::VeleroResource;

use crate::session::Session;

/// How often the object is looked at.
const POLL: Duration = Duration::from_secs(1);
/// How many looks in a row may fail.
const PATIENCE: u32 = 30;

/// How far the work has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// The phase.
    pub(super) phase: String,
    /// Whether the work has ended.
    pub(super) ended: bool,
    /// Items done.
    pub(super) done: u64,
    /// Items to do, as far as known.
    pub(super) total: u64,
}

/// Watches the object until its work has ended; gives the phase it ended in.
pub(super) async fn wait<K: VeleroResource>(
    session: &Session,
    name: &str,
    progress: impl Fn(&K) -> Progress,
) -> Result<String> {
    let mut display = Display::new(session);
    let mut failures = 0;
    loop {
        match session.find::<K>(name).await {
            Ok(Some(object)) => {
                failures = 0;
                let progress = progress(&object);
                if progress.ended {
                    display.clear();
                    return Ok(progress.phase);
                }
                display.show(progress);
            }
            Ok(None) => bail!("{} {name:?} was deleted while waiting for it", K::KIND.to_lowercase()),
            Err(error) if failures >= PATIENCE => return Err(error.context(format!("unable to watch {}", K::PLURAL))),
            Err(_) => failures += 1,
        }
        sleep(POLL).await;
    }
}

impl Progress {
    /// One line: items, percent and, after some time, items a second.
    fn line(&self, elapsed: Duration) -> String {
        let Self { phase, done, total, .. } = self;
        if *total == 0 {
            return phase.clone();
        }
        let percent = done * 100 / total;
        let rate = match elapsed.as_secs() {
            0 => String::new(),
            seconds => format!(", {} items/s", done / seconds),
        };
        format!("{phase}: {done} of {total} items ({percent}%){rate}")
    }
}

/// Shows progress: a bar for a person at a terminal, else a line for each change.
enum Display<'a> {
    Bar(ProgressBar),
    Lines { session: &'a Session, last: Option<Progress>, begun: Instant },
}

impl<'a> Display<'a> {
    fn new(session: &'a Session) -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines { session, last: None, begun: Instant::now() };
        }
        let bar = ProgressBar::new(0);
        let template = "{prefix} [{wide_bar}] {percent}%, {pos}/{len} items, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(POLL);
        Self::Bar(bar)
    }

    fn show(&mut self, progress: Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
                bar.set_prefix(progress.phase);
            }
            Self::Lines { last, .. } if last.as_ref() == Some(&progress) => {}
            Self::Lines { session, last, begun } => {
                session.printer.note(progress.line(begun.elapsed()));
                *last = Some(progress);
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_items_percent_and_rate_as_far_as_known() {
        let progress = |done, total| Progress { phase: "InProgress".to_owned(), ended: false, done, total };
        for (progress, seconds, expected) in [
            (progress(0, 0), 3, "InProgress"),
            (progress(5, 20), 0, "InProgress: 5 of 20 items (25%)"),
            (progress(120, 400), 2, "InProgress: 120 of 400 items (30%), 60 items/s"),
            (progress(400, 400), 5, "InProgress: 400 of 400 items (100%), 80 items/s"),
        ] {
            assert_eq!(progress.line(Duration::from_secs(seconds)), expected);
        }
    }
}
