//! What became of the spans of traces.

use prometheus::{Counter, CounterVec};

use super::builder::Builder;
use crate::runtime::traces::{Counts, Fate};

/// Counts spans. Those who make and bring them count for themselves; here it becomes metrics.
pub(super) struct Traces {
    counter: CounterVec,
}

impl Traces {
    pub(super) fn new(builder: &Builder) -> prometheus::Result<Self> {
        let help = "Spans of traces, by what became of them: sent, lost, left_out (too many of a backup or restore)";
        Ok(Self { counter: builder.counter(("trace_spans_total", help), &["fate"])? })
    }

    /// Takes over what was counted so far.
    pub(super) fn take_over(&self, counts: &Counts) {
        for fate in Fate::ALL {
            let counter: Counter = self.counter.with_label_values(&[fate.name()]);
            counter.inc_by((counts.of(fate) as f64 - counter.get()).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn what_became_of_spans_is_taken_over_once() {
        let traces = Traces::new(&Builder::new(&Registry::new())).unwrap();
        let counts = Counts::new();
        counts.add(Fate::Lost, 3);
        for _ in 0..2 {
            traces.take_over(&counts);
        }
        assert_eq!(traces.counter.with_label_values(&["lost"]).get(), 3.0);
        assert_eq!(traces.counter.with_label_values(&["sent"]).get(), 0.0);
    }
}
