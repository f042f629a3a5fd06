//! Shows progress: bars for a person at a terminal, else a plain line now and then.

use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use terminal_size::{Width, terminal_size_of};
use tokio::time::Instant;

use super::progress::{Pace, Progress};
use super::volumes::{self, Volume};
use crate::printer::Printer;

/// The width of a terminal that does not tell its own.
const USUAL_WIDTH: usize = 80;
/// How far apart lines are as long as the phase stays the same, at first and after ten minutes: the log of a night must
/// stay readable.
const PAUSE: Duration = Duration::from_secs(10);
const LONG_PAUSE: Duration = Duration::from_secs(60);
const SHORT_WORK: Duration = Duration::from_secs(600);

/// Where progress is shown, and what was shown last.
pub(super) struct Display {
    begun: Instant,
    pace: Pace,
    form: Form,
}

enum Form {
    Screen(Screen),
    Lines { printer: Printer, last: Option<Shown> },
}

/// What the last line told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    progress: Progress,
    volumes: Option<String>,
    at: Duration,
}

impl Display {
    /// A display for where standard error goes.
    pub(super) fn new(printer: Printer) -> Self {
        let form = match io::stderr().is_terminal() && !is_dumb(env::var("TERM").ok().as_deref()) {
            true => Form::Screen(Screen::new()),
            false => Form::Lines { printer, last: None },
        };
        Self { begun: Instant::now(), pace: Pace::default(), form }
    }

    /// Takes note of the progress; says whether it would be shown now, with the volumes.
    pub(super) fn is_due(&mut self, progress: &Progress) -> bool {
        let elapsed = self.begun.elapsed();
        self.pace.note(elapsed, progress.done);
        match &self.form {
            Form::Screen(_) => true,
            Form::Lines { last, .. } => is_due(last.as_ref(), progress, elapsed),
        }
    }

    /// Shows the progress.
    pub(super) fn show(&mut self, progress: Progress, volumes: &[Volume]) {
        let elapsed = self.begun.elapsed();
        match &mut self.form {
            Form::Screen(screen) => {
                let width = screen_width();
                let first = progress.bar(&self.pace, elapsed, width);
                let further = volumes::lines(volumes, Timestamp::now(), width);
                screen.show(std::iter::once(first).chain(further).collect());
            }
            Form::Lines { printer, last } => {
                let shown = Shown { volumes: volumes::summary(volumes), progress, at: elapsed };
                let is_new = last
                    .as_ref()
                    .is_none_or(|last| (&last.progress, &last.volumes) != (&shown.progress, &shown.volumes));
                if is_new {
                    let line = shown.progress.line(&self.pace, elapsed);
                    let volumes = shown.volumes.as_deref().map(|summary| format!("; {summary}")).unwrap_or_default();
                    printer.note(format_args!("{line}{volumes}"));
                }
                *last = Some(shown);
            }
        }
    }

    /// Leaves the screen as it was.
    pub(super) fn clear(&mut self) {
        if let Form::Screen(screen) = &mut self.form {
            screen.show(Vec::new());
        }
    }
}

/// Whether it is time for another line: a new phase is told at once.
fn is_due(last: Option<&Shown>, progress: &Progress, elapsed: Duration) -> bool {
    let pause = if elapsed < SHORT_WORK { PAUSE } else { LONG_PAUSE };
    last.is_none_or(|last| last.progress.phase != progress.phase || elapsed.saturating_sub(last.at) >= pause)
}

/// Whether a terminal only takes text, without moving back in it.
pub(super) fn is_dumb(terminal: Option<&str>) -> bool {
    terminal == Some("dumb")
}

fn screen_width() -> usize {
    terminal_size_of(io::stderr()).map_or(USUAL_WIDTH, |(Width(columns), _)| usize::from(columns))
}

/// Lines that are written over again and again.
struct Screen {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        Self { all: MultiProgress::new(), lines: Vec::new() }
    }

    fn show(&mut self, lines: Vec<String>) {
        for bar in self.lines.drain(lines.len().min(self.lines.len())..) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        while self.lines.len() < lines.len() {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.lines.push(bar);
        }
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line);
            bar.tick();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_at_first_with_a_new_phase_and_after_a_pause() {
        let at = |seconds| Duration::from_secs(seconds);
        let progress = |phase: &str| Progress { phase: phase.to_owned(), ..Progress::default() };
        let last = |seconds| Shown { progress: progress("InProgress"), volumes: None, at: at(seconds) };
        assert!(is_due(None, &progress("New"), at(0)));
        for (shown, now, expected) in [(5, 6, false), (5, 15, true), (700, 715, false), (700, 760, true)] {
            assert_eq!(is_due(Some(&last(shown)), &progress("InProgress"), at(now)), expected, "{shown} {now}");
            assert!(is_due(Some(&last(shown)), &progress("Finalizing"), at(now)), "{shown} {now}");
        }
    }

    #[test]
    fn a_dumb_terminal_gets_lines() {
        assert!(is_dumb(Some("dumb")));
        assert!(!is_dumb(Some("xterm")) && !is_dumb(None));
    }
}
