//! Waiting for a backup or restore to end.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;
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

/// Shows progress: a bar for a person at a terminal, else a line for each change.
enum Display<'a> {
    Bar(ProgressBar),
    Lines { session: &'a Session, last: Option<Progress> },
}

impl<'a> Display<'a> {
    fn new(session: &'a Session) -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines { session, last: None };
        }
        let bar = ProgressBar::new(0);
        let template = "{prefix} [{wide_bar}] {pos}/{len} items, {per_sec}, {eta} left";
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
            Self::Lines { session, last } => {
                let Progress { phase, done, total, .. } = &progress;
                session.printer.note(format_args!("{phase}: {done} of {total} items"));
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
