//! Gauges whose series are those of the objects that exist: what is not named any more goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use prometheus::GaugeVec;

use crate::runtime::lock::lock;

/// A gauge with one label, and the values of that label that have a series.
pub(super) struct Series {
    gauge: GaugeVec,
    known: Mutex<BTreeSet<String>>,
}

impl Series {
    pub(super) fn new(gauge: GaugeVec) -> Self {
        Self { gauge, known: Mutex::default() }
    }

    /// Sets all series; those that are not among them go.
    pub(super) fn replace(&self, values: &BTreeMap<String, f64>) {
        let mut known = lock(&self.known);
        for (label, value) in values {
            self.gauge.with_label_values(&[label]).set(*value);
        }
        for gone in known.iter().filter(|label| !values.contains_key(*label)) {
            let _ = self.gauge.remove_label_values(&[gone]);
        }
        *known = values.keys().cloned().collect();
    }

    /// Removes one series.
    pub(super) fn remove(&self, label: &str) {
        lock(&self.known).remove(label);
        let _ = self.gauge.remove_label_values(&[label]);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;
    use prometheus::core::Collector;

    use super::*;

    #[test]
    fn series_that_are_not_named_any_more_go() {
        let series = Series::new(GaugeVec::new(Opts::new("g", "h"), &["l"]).unwrap());
        let values =
            |labels: &[(&str, f64)]| labels.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
        let seen = || {
            let family = series.gauge.collect().remove(0);
            let mut seen: Vec<_> = family.get_metric().iter().map(|metric| metric.get_gauge().get_value()).collect();
            seen.sort_by(f64::total_cmp);
            seen
        };
        series.replace(&values(&[("a", 1.0), ("b", 2.0)]));
        assert_eq!(seen(), [1.0, 2.0]);
        series.replace(&values(&[("b", 3.0), ("c", 4.0)]));
        assert_eq!(seen(), [3.0, 4.0]);
        series.remove("b");
        assert_eq!(seen(), [4.0]);
    }
}
