//! How far the work has come, in words that fit the width they are shown in.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back the rate looks: long enough to be calm, short enough to notice that items have become slower.
const WINDOW: Duration = Duration::from_secs(30);
/// A bar shorter than this says nothing, a longer one nothing more.
const SHORTEST_BAR: usize = 10;
const LONGEST_BAR: usize = 40;

/// How far the work has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The phase.
    pub(crate) phase: String,
    /// Whether the work has ended.
    pub(crate) ended: bool,
    /// Items done.
    pub(crate) done: u64,
    /// Items to do, as far as known.
    pub(crate) total: u64,
    /// The place among those that wait for their turn, from one on.
    pub(crate) queue_position: Option<i64>,
    /// The operations that are waited for, where the work itself is done.
    pub(crate) operations: Option<Operations>,
}

/// How far asynchronous operations have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operations {
    /// All of them.
    pub(crate) attempted: i64,
    /// Those that ended well.
    pub(crate) completed: i64,
    /// Those that ended badly.
    pub(crate) failed: i64,
}

impl Operations {
    /// The operations of an object that waits for them; nothing for one that has none left.
    pub(crate) fn waited_for(attempted: i64, completed: i64, failed: i64) -> Option<Self> {
        (attempted > completed + failed).then_some(Self { attempted, completed, failed })
    }

    fn text(self) -> String {
        let Self { attempted, completed, failed } = self;
        format!("{completed}/{attempted} operations done, {failed} failed")
    }
}

/// How fast items go, from what was seen in the last half minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    seen: VecDeque<(Duration, u64)>,
}

impl Pace {
    /// Takes note of how many items were done that long after the waiting began.
    pub(super) fn note(&mut self, at: Duration, done: u64) {
        if self.seen.back().is_some_and(|(_, before)| done < *before) {
            self.seen.clear();
        }
        self.seen.push_back((at, done));
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|(then, _)| at.saturating_sub(*then) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Items a second; nothing as long as too little was seen, or when nothing moves.
    fn rate(&self) -> Option<f64> {
        let ((begun, first), (now, last)) = (self.seen.front()?, self.seen.back()?);
        let seconds = now.saturating_sub(*begun).as_secs_f64();
        (seconds >= 1.0 && last > first).then(|| (last - first) as f64 / seconds)
    }
}

/// The figures of a line, the most important ones first.
struct Figures {
    share: String,
    items: String,
    rate: Option<String>,
    left: Option<String>,
}

impl Progress {
    fn figures(&self, pace: &Pace) -> Option<Figures> {
        let Self { done, total, .. } = *self;
        if total == 0 {
            return None;
        }
        let rate = pace.rate().filter(|_| done < total);
        let left = rate.and_then(|rate| Duration::try_from_secs_f64((total - done) as f64 / rate).ok());
        Some(Figures {
            share: format!("{}%", (done.min(total) as f64 * 100.0 / total as f64) as u64),
            items: format!("{done}/{total} items"),
            rate: rate
                .map(|rate| if rate < 10.0 { format!("{rate:.1} items/s") } else { format!("{rate:.0} items/s") }),
            left: left.map(|left| format!("{} left", time_text(left))),
        })
    }

    /// The phase, and the place of one that waits for its turn.
    fn place(&self) -> String {
        match self.queue_position.filter(|position| *position > 0) {
            Some(position) => format!("{} at position {position}", self.phase),
            None => self.phase.clone(),
        }
    }

    /// One line for a file or a pipe.
    pub(super) fn line(&self, pace: &Pace, elapsed: Duration) -> String {
        let place = self.place();
        if let Some(operations) = self.operations {
            return format!("{place}: {}", operations.text());
        }
        match self.figures(pace) {
            None => format!("{place}, {}", time_text(elapsed)),
            Some(Figures { share, items, rate, left }) => {
                let further: String = [rate, left].into_iter().flatten().map(|figure| format!(", {figure}")).collect();
                format!("{place}: {items} ({share}){further}")
            }
        }
    }

    /// One line for a screen of this width. What does not fit is left out: the bar, then the rate, then the time.
    pub(super) fn bar(&self, pace: &Pace, elapsed: Duration, width: usize) -> String {
        let Some(Figures { share, items, rate, left }) = self.figures(pace).filter(|_| self.operations.is_none())
        else {
            return self.line(pace, elapsed);
        };
        let place = self.place();
        let joined = |figures: &[Option<&String>]| {
            figures.iter().flatten().map(|figure| figure.as_str()).collect::<Vec<_>>().join(", ")
        };
        let all = joined(&[Some(&share), Some(&items), rate.as_ref(), left.as_ref()]);
        let room = width.saturating_sub(place.len() + all.len() + 4).min(LONGEST_BAR);
        if room >= SHORTEST_BAR {
            return format!("{place} [{}] {all}", filled(self.done, self.total, room));
        }
        let shorter = [
            all,
            joined(&[Some(&share), Some(&items), left.as_ref()]),
            joined(&[Some(&share), Some(&items)]),
            joined(&[Some(&share)]),
        ];
        let lines = shorter.map(|figures| format!("{place}: {figures}"));
        lines.iter().find(|line| line.len() <= width).unwrap_or(&lines[3]).clone()
    }
}

/// A bar of this length.
pub(super) fn filled(done: u64, total: u64, length: usize) -> String {
    let share = if total == 0 { 0.0 } else { done.min(total) as f64 / total as f64 };
    let full = (share * length as f64) as usize;
    let tip = if full < length && total > 0 { ">" } else { "" };
    let bar = format!("{}{tip}", "=".repeat(full));
    format!("{bar:length$}")
}

/// A time to the second while that matters.
pub(super) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn progress(done: u64, total: u64) -> Progress {
        Progress { phase: "InProgress".to_owned(), done, total, ..Progress::default() }
    }

    /// Both ends of a time in which items went evenly.
    fn pace(seconds: u32, done: u64) -> Pace {
        let mut pace = Pace::default();
        pace.note(Duration::ZERO, 0);
        pace.note(SECOND * seconds, done);
        pace
    }

    #[test]
    fn a_line_tells_items_percent_rate_and_time_left_as_far_as_known() {
        let queued = Progress { phase: "Queued".to_owned(), queue_position: Some(3), ..Progress::default() };
        for (progress, pace, expected) in [
            (progress(0, 0), pace(3, 0), "InProgress, 9s"),
            (queued, Pace::default(), "Queued at position 3, 9s"),
            (progress(0, 20), pace(3, 0), "InProgress: 0/20 items (0%)"),
            (progress(5, 20), pace(0, 5), "InProgress: 5/20 items (25%)"),
            (progress(120, 400), pace(2, 120), "InProgress: 120/400 items (30%), 60 items/s, 4s left"),
            (progress(3, 400), pace(2, 3), "InProgress: 3/400 items (0%), 1.5 items/s, 4m24s left"),
            (progress(400, 400), pace(5, 400), "InProgress: 400/400 items (100%)"),
            (progress(500, 400), pace(5, 400), "InProgress: 500/400 items (100%)"),
        ] {
            assert_eq!(progress.line(&pace, SECOND * 9), expected);
        }
    }

    #[test]
    fn a_bar_begins_without_figures_and_leaves_out_what_does_not_fit() {
        let (progress, pace, soon) = (progress(120, 400), pace(2, 120), SECOND);
        let begun = Progress { phase: "New".to_owned(), ..Progress::default() };
        for (width, expected) in [
            (120, "InProgress [============>                           ] 30%, 120/400 items, 60 items/s, 4s left"),
            (64, "InProgress [===>       ] 30%, 120/400 items, 60 items/s, 4s left"),
            (60, "InProgress: 30%, 120/400 items, 60 items/s, 4s left"),
            (50, "InProgress: 30%, 120/400 items, 4s left"),
            (35, "InProgress: 30%, 120/400 items"),
            (20, "InProgress: 30%"),
            (3, "InProgress: 30%"),
        ] {
            let shown = progress.bar(&pace, soon, width);
            assert_eq!(shown, expected, "{width}");
            assert!(shown.len() <= width.max(15), "{width}: {shown:?}");
            assert_eq!(begun.bar(&Pace::default(), soon, width), "New, 1s");
        }
    }

    #[test]
    fn the_operations_that_are_waited_for_are_told_within_sixty_columns() {
        let operations = Operations::waited_for(70, 33, 11);
        let phase = "WaitingForPluginOperations".to_owned();
        let progress = Progress { phase, done: 9, total: 9, operations, ..Progress::default() };
        let expected = "WaitingForPluginOperations: 33/70 operations done, 11 failed";
        assert_eq!(progress.line(&Pace::default(), SECOND), expected);
        assert_eq!(progress.bar(&Pace::default(), SECOND, 60), expected);
        assert_eq!(expected.len(), 60);
        assert_eq!(Operations::waited_for(4, 3, 1), None);
        assert_eq!(Operations::waited_for(0, 0, 0), None);
    }

    #[test]
    fn the_rate_is_that_of_the_last_half_minute_and_begins_anew_when_items_go_back() {
        let mut pace = Pace::default();
        for second in 0..=100 {
            pace.note(SECOND * second, u64::from(second) * 100);
        }
        for second in 101..=131 {
            pace.note(SECOND * second, 10_000 + u64::from(second - 100) * 10);
        }
        assert_eq!(pace.rate(), Some(10.0));
        assert!(pace.seen.len() <= 33, "only the last half minute is kept: {}", pace.seen.len());
        pace.note(SECOND * 132, 0);
        assert_eq!(pace.rate(), None);
        for second in 133..200 {
            pace.note(SECOND * second, 0);
        }
        assert_eq!(pace.rate(), None, "nothing moves");
    }

    #[test]
    fn times_are_short() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (60, "1m0s"), (3599, "59m59s"), (7265, "2h1m")] {
            assert_eq!(time_text(SECOND * seconds), expected);
        }
    }
}
