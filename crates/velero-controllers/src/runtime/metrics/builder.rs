//! Makes the collectors of the metrics.

use prometheus::core::Collector;
use prometheus::{CounterVec, Gauge, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry};

const BUCKETS: [f64; 9] = [60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0];

/// Makes collectors and puts them into the registry.
pub(super) struct Builder(pub(super) Registry);

impl Builder {
    pub(super) fn add<C: Collector + Clone + 'static>(&self, collector: C) -> prometheus::Result<C> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    pub(super) fn counter(&self, (name, help): (&str, &str), labels: &[&str]) -> prometheus::Result<CounterVec> {
        self.add(CounterVec::new(Opts::new(format!("velero_{name}"), help), labels)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        self.add(GaugeVec::new(Opts::new(format!("velero_{name}"), help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.add(Gauge::new(format!("velero_{name}"), help)?)
    }

    pub(super) fn histogram(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::new(format!("velero_{name}"), help).buckets(BUCKETS.to_vec());
        self.add(HistogramVec::new(options, labels)?)
    }
}
