//! How the maintenance of repositories went.

use prometheus::{CounterVec, HistogramVec};

use super::builder::Builder;

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

    /// A maintenance has ended, and how long it took where that is known.
    pub(super) fn ended(&self, repository: &str, is_success: bool, seconds: Option<f64>) {
        // Both are there from then on, so that none is missing where all is well.
        for (counter, counts) in [(&self.success, is_success), (&self.failure, !is_success)] {
            counter.with_label_values(&[repository]).inc_by(f64::from(u8::from(counts)));
        }
        if let Some(seconds) = seconds {
            self.duration.with_label_values(&[repository]).observe(seconds);
        }
    }

    /// A repository is gone, and its series with it.
    pub(super) fn forget(&self, repository: &str) {
        let _ = self.success.remove_label_values(&[repository]);
        let _ = self.failure.remove_label_values(&[repository]);
        let _ = self.duration.remove_label_values(&[repository]);
    }
}
