//! How the maintenance of repositories went.

use prometheus::{CounterVec, HistogramVec};

use super::{Builder, Metrics};

const REPOSITORY: &[&str] = &["repository_name"];

/// The metrics of maintenance, by repository.
pub(super) struct Maintenance {
    success: CounterVec,
    failure: CounterVec,
    duration: HistogramVec,
}

impl Maintenance {
    pub(super) fn new(builder: &Builder) -> prometheus::Result<Self> {
        let success = ("repo_maintenance_success_total", "Maintenance jobs that succeeded");
        let failure = ("repo_maintenance_failure_total", "Maintenance jobs that failed");
        let duration = ("repo_maintenance_duration_seconds", "How long maintenance jobs took");
        Ok(Self {
            success: builder.counter(success, REPOSITORY)?,
            failure: builder.counter(failure, REPOSITORY)?,
            duration: builder.histogram(duration.0, duration.1, REPOSITORY)?,
        })
    }
}

impl Metrics {
    /// A maintenance has ended, and how long it took where that is known.
    pub(crate) fn maintenance_ended(&self, repository: &str, is_success: bool, seconds: Option<f64>) {
        let counter = if is_success { &self.maintenance.success } else { &self.maintenance.failure };
        counter.with_label_values(&[repository]).inc();
        if let Some(seconds) = seconds {
            self.maintenance.duration.with_label_values(&[repository]).observe(seconds);
        }
    }

    /// A repository is gone, and its series with it.
    pub(crate) fn end_repository(&self, repository: &str) {
        let _ = self.maintenance.success.remove_label_values(&[repository]);
        let _ = self.maintenance.failure.remove_label_values(&[repository]);
        let _ = self.maintenance.duration.remove_label_values(&[repository]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_is_counted_by_repository_until_it_is_gone() {
        let metrics = Metrics::new().unwrap();
        metrics.maintenance_ended("shop", true, Some(2.0));
        metrics.maintenance_ended("shop", false, None);
        let text = String::from_utf8(metrics.text()).unwrap();
        for line in [
            r#"velero_repo_maintenance_success_total{repository_name="shop"} 1"#,
            r#"velero_repo_maintenance_failure_total{repository_name="shop"} 1"#,
            r#"velero_repo_maintenance_duration_seconds_count{repository_name="shop"} 1"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.end_repository("shop");
        assert!(!String::from_utf8(metrics.text()).unwrap().contains("shop"));
    }
}
