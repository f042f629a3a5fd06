//! Makes the collectors of the metrics.

use std::cell::RefCell;

use prometheus::core::Collector;
use prometheus::{CounterVec, Gauge, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry};

use crate::runtime::metrics::reference::{MetricDescription, MetricKind};
use crate::runtime::metrics::series::Series;

const BUCKETS: [f64; 9] = [60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0];

/// The beginning of the names of the server's metrics, and of what is new in node agents.
pub(crate) const PREFIX: &str = "velero";

/// Makes collectors, puts them into the registry, and writes down what there is.
pub(crate) struct Builder {
    pub(crate) registry: Registry,
    described: RefCell<Vec<MetricDescription>>,
}

impl Builder {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self { registry: registry.clone(), described: RefCell::default() }
    }

    /// What was made, in order.
    pub(crate) fn described(self) -> Vec<MetricDescription> {
        self.described.into_inner()
    }

    fn add<C: Collector + Clone + 'static>(&self, kind: MetricKind, collector: C) -> prometheus::Result<C> {
        let described = collector.desc().into_iter().map(|described| MetricDescription {
            name: described.fq_name.clone(),
            kind,
            labels: described.variable_labels.clone(),
            help: described.help.clone(),
        });
        self.described.borrow_mut().extend(described);
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    pub(crate) fn counter(&self, (name, help): (&str, &str), labels: &[&str]) -> prometheus::Result<CounterVec> {
        self.counter_of(PREFIX, (name, help), labels)
    }

    pub(crate) fn counter_of(
        &self,
        prefix: &str,
        (name, help): (&str, &str),
        labels: &[&str],
    ) -> prometheus::Result<CounterVec> {
        self.add(MetricKind::Counter, CounterVec::new(Opts::new(format!("{prefix}_{name}"), help), labels)?)
    }

    pub(crate) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        self.gauges_of(PREFIX, name, help, labels)
    }

    pub(crate) fn gauges_of(
        &self,
        prefix: &str,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<GaugeVec> {
        self.add(MetricKind::Gauge, GaugeVec::new(Opts::new(format!("{prefix}_{name}"), help), labels)?)
    }

    /// A counter or a gauge of which there may be many series.
    pub(super) fn series(
        &self,
        kind: MetricKind,
        (name, help): (&str, &str),
        labels: &[&str],
    ) -> prometheus::Result<Series> {
        self.add(kind, Series::new(kind, format!("{PREFIX}_{name}"), help, labels)?)
    }

    pub(crate) fn gauge(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.add(MetricKind::Gauge, Gauge::new(format!("{PREFIX}_{name}"), help)?)
    }

    pub(crate) fn histogram(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<HistogramVec> {
        self.histogram_of(PREFIX, name, help, labels)
    }

    pub(crate) fn histogram_of(
        &self,
        prefix: &str,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::new(format!("{prefix}_{name}"), help).buckets(BUCKETS.to_vec());
        self.add(MetricKind::Histogram, HistogramVec::new(options, labels)?)
    }
}
