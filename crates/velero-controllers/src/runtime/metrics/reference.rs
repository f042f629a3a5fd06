//! What is said about metrics to those who read of them: the list in the documentation is made from it.

use std::fmt::Write;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// It only grows.
    Counter,
    /// It says how something is now.
    Gauge,
    /// It counts by size.
    Histogram,
}

/// A metric as it is described to its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricDescription {
    /// Its name, as Prometheus knows it.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: MetricKind,
    /// The names of its labels.
    pub(crate) labels: Vec<String>,
    /// What it says.
    pub(crate) help: String,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The table of metrics for the documentation, by name.
pub(crate) fn table(metrics: &[MetricDescription]) -> String {
    let mut sorted: Vec<_> = metrics.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = "| metric | type | labels | what it says |\n|---|---|---|---|\n".to_owned();
    for metric in sorted {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels, help) = (&metric.name, metric.kind.name(), labels.join(", "), &metric.help);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {help} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_a_metric_in_the_order_of_names() {
        let metric = |name: &str, labels: &[&str]| MetricDescription {
            name: name.to_owned(),
            kind: MetricKind::Gauge,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            help: "Something".to_owned(),
        };
        let text = table(&[metric("b", &["x", "y"]), metric("a", &[])]);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines, ["| `a` | gauge |  | Something |", "| `b` | gauge | `x`, `y` | Something |"]);
    }
}
