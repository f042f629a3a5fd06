//! The series of one metric, kept small; those of objects that are gone go.
//!
//! A server with hundreds of schedules has thousands of series, most of which stay at zero. What `prometheus` keeps of each has
//! the name, the help and the labels of its metric once more; here a series is the values of its labels and its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::runtime::lock::lock;
use crate::runtime::metrics::reference::MetricKind;

/// What stands between the values of labels, in none of which it can be.
const BETWEEN: &str = "\0";

/// All series of a counter or a gauge.
#[derive(Clone)]
pub(super) struct Series(Arc<Kept>);

struct Kept {
    description: Desc,
    kind: MetricKind,
    /// By the values of the labels.
    values: Mutex<BTreeMap<Box<str>, f64>>,
}

impl Series {
    /// None yet, of a metric with these labels.
    pub(super) fn new(kind: MetricKind, name: String, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let description = Desc::new(name, help.to_owned(), labels, HashMap::new())?;
        Ok(Self(Arc::new(Kept { description, kind, values: Mutex::default() })))
    }

    /// Adds to the value of a series, which begins at zero.
    pub(super) fn add(&self, labels: &[&str], number: f64) {
        *self.values().entry(key(labels)).or_default() += number;
    }

    /// Sets the value of a series.
    pub(super) fn set(&self, labels: &[&str], value: f64) {
        self.values().insert(key(labels), value);
    }

    /// Removes one series, if it is there.
    pub(super) fn remove(&self, labels: &[&str]) {
        self.values().remove(&key(labels));
    }

    /// Sets all series of a metric with one label; those that are not among them go.
    pub(super) fn replace(&self, values: &BTreeMap<String, f64>) {
        *self.values() = values.iter().map(|(label, value)| (label.as_str().into(), *value)).collect();
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<Box<str>, f64>> {
        lock(&self.0.values)
    }

    fn metric(&self, key: &str, value: f64) -> Metric {
        let names = self.0.description.variable_labels.iter();
        let mut labels: Vec<_> = names.zip(key.split(BETWEEN)).map(|(name, value)| pair(name, value)).collect();
        labels.sort();
        let mut metric = Metric::from_label(labels);
        if self.0.kind == MetricKind::Counter {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        metric
    }
}

impl Collector for Series {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Kept { description, kind, .. } = &*self.0;
        let mut family = MetricFamily::default();
        family.set_name(description.fq_name.clone());
        family.set_help(description.help.clone());
        family.set_field_type(match kind {
            MetricKind::Counter => MetricType::COUNTER,
            MetricKind::Gauge | MetricKind::Histogram => MetricType::GAUGE,
        });
        family.set_metric(self.values().iter().map(|(key, value)| self.metric(key, *value)).collect());
        vec![family]
    }
}

fn key(labels: &[&str]) -> Box<str> {
    labels.join(BETWEEN).into()
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

#[cfg(test)]
mod tests {
    use prometheus::{CounterVec, Encoder, GaugeVec, Opts, Registry, TextEncoder};

    use super::*;

    fn text(collector: impl Collector + 'static) -> String {
        let registry = Registry::new();
        registry.register(Box::new(collector)).unwrap();
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn series_that_are_not_named_any_more_go() {
        let series = Series::new(MetricKind::Gauge, "g".to_owned(), "h", &["l"]).unwrap();
        let values =
            |labels: &[(&str, f64)]| labels.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
        let seen = || text(series.clone()).lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
        series.replace(&values(&[("a", 1.0), ("b", 2.0)]));
        assert_eq!(seen(), [r#"g{l="a"} 1"#, r#"g{l="b"} 2"#]);
        series.replace(&values(&[("b", 3.0), ("c", 4.0)]));
        assert_eq!(seen(), [r#"g{l="b"} 3"#, r#"g{l="c"} 4"#]);
        series.remove(&["b"]);
        series.remove(&["never-there"]);
        assert_eq!(seen(), [r#"g{l="c"} 4"#]);
    }

    #[test]
    fn they_are_told_as_those_of_the_library_are() {
        let labels = ["schedule", "backupName"];
        let ours = Series::new(MetricKind::Counter, "c".to_owned(), "What is counted", &labels).unwrap();
        let theirs = CounterVec::new(Opts::new("c", "What is counted"), &labels).unwrap();
        assert_eq!(text(ours.clone()), text(theirs.clone()), "none");
        for (schedule, backup, number) in [("b", "", 0.0), ("a \"quoted\"", "x", 2.0), ("", "", 1.5), ("b", "", 3.0)] {
            ours.add(&[schedule, backup], number);
            theirs.with_label_values(&[schedule, backup]).inc_by(number);
        }
        assert_eq!(text(ours), text(theirs));
        let ours = Series::new(MetricKind::Gauge, "g".to_owned(), "How it is", &["l"]).unwrap();
        let theirs = GaugeVec::new(Opts::new("g", "How it is"), &["l"]).unwrap();
        for (label, value) in [("b", 1.0), ("a", -2.0), ("b", 0.5)] {
            ours.set(&[label], value);
            theirs.with_label_values(&[label]).set(value);
        }
        assert_eq!(text(ours), text(theirs));
    }

    #[test]
    fn little_is_kept_of_a_series() {
        assert!(size_of::<(Box<str>, f64)>() <= 24, "a server has thousands of them");
    }
}
