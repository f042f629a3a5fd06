//! Waiting for a backup or restore to end.

mod volumes;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
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
    /// The operations that are waited for, where the work itself is done.
    pub(super) operations: Option<Operations>,
}

/// How far asynchronous operations have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operations {
    /// All of them.
    pub(super) attempted: i64,
    /// Those that ended well.
    pub(super) completed: i64,
    /// Those that ended badly.
    pub(super) failed: i64,
}

impl Operations {
    /// The operations of an object that waits for them; nothing for one that has none left.
    pub(super) fn waited_for(attempted: i64, completed: i64, failed: i64) -> Option<Self> {
        (attempted > completed + failed).then_some(Self { attempted, completed, failed })
    }

    fn text(self) -> String {
        let Self { attempted, completed, failed } = self;
        format!("{completed} of {attempted} operations completed, {failed} failed")
    }
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
                if let Display::Screen(screen) = &mut display {
                    screen.show_volumes(&volumes::lines(&volumes::read(session, &object).await, Timestamp::now()));
                }
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
        if let Some(operations) = self.operations {
            return format!("{phase}: {}", operations.text());
        }
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

/// Shows progress: bars for a person at a terminal, else a line for each change.
enum Display<'a> {
    Screen(Screen),
    Lines { session: &'a Session, last: Option<Progress>, begun: Instant },
}

/// A bar for the items, and below it a line for each volume whose data moves.
struct Screen {
    all: MultiProgress,
    items: ProgressBar,
    volumes: Vec<ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        let all = MultiProgress::new();
        let items = all.add(ProgressBar::new(0));
        let template = "{prefix} [{wide_bar}] {percent}%, {pos}/{len} items, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            items.set_style(style.progress_chars("=> "));
        }
        items.enable_steady_tick(POLL);
        Self { all, items, volumes: Vec::new() }
    }

    fn show_items(&self, progress: Progress) {
        self.items.set_length(progress.total);
        self.items.set_position(progress.done);
        let waiting = progress.operations.map(|operations| format!(" ({})", operations.text()));
        self.items.set_prefix(progress.phase + &waiting.unwrap_or_default());
    }

    fn show_volumes(&mut self, lines: &[String]) {
        for bar in self.volumes.drain(lines.len().min(self.volumes.len())..) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        while self.volumes.len() < lines.len() {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.volumes.push(bar);
        }
        for (bar, line) in self.volumes.iter().zip(lines) {
            bar.set_message(line.clone());
            bar.tick();
        }
    }

    fn clear(&mut self) {
        self.show_volumes(&[]);
        self.items.finish_and_clear();
    }
}

impl<'a> Display<'a> {
    fn new(session: &'a Session) -> Self {
        match io::stderr().is_terminal() {
            true => Self::Screen(Screen::new()),
            false => Self::Lines { session, last: None, begun: Instant::now() },
        }
    }

    fn show(&mut self, progress: Progress) {
        match self {
            Self::Screen(screen) => screen.show_items(progress),
            Self::Lines { last, .. } if last.as_ref() == Some(&progress) => {}
            Self::Lines { session, last, begun } => {
                session.printer.note(progress.line(begun.elapsed()));
                *last = Some(progress);
            }
        }
    }

    fn clear(&mut self) {
        if let Self::Screen(screen) = self {
            screen.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_items_percent_and_rate_as_far_as_known() {
        let phase = "InProgress".to_owned();
        let progress = |done, total| Progress { phase: phase.clone(), ended: false, done, total, operations: None };
        for (progress, seconds, expected) in [
            (progress(0, 0), 3, "InProgress"),
            (progress(5, 20), 0, "InProgress: 5 of 20 items (25%)"),
            (progress(120, 400), 2, "InProgress: 120 of 400 items (30%), 60 items/s"),
            (progress(400, 400), 5, "InProgress: 400 of 400 items (100%), 80 items/s"),
        ] {
            assert_eq!(progress.line(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_line_tells_the_operations_that_are_waited_for() {
        let operations = Operations::waited_for(7, 3, 1);
        let phase = "WaitingForPluginOperations".to_owned();
        let progress = Progress { phase, ended: false, done: 9, total: 9, operations };
        let expected = "WaitingForPluginOperations: 3 of 7 operations completed, 1 failed";
        assert_eq!(progress.line(Duration::from_secs(9)), expected);
        assert_eq!(Operations::waited_for(4, 3, 1), None);
        assert_eq!(Operations::waited_for(0, 0, 0), None);
    }
}
