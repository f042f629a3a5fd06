//! What had to be tried again, and why.

use std::collections::HashMap;
use std::sync::Mutex;

use prometheus::CounterVec;
use velero_cluster::{Cluster, RetryCause};
use velero_store::{Trouble, Troubles};

use super::builder::Builder;
use crate::runtime::lock::lock;

/// Counts what was tried again. Those who try count for themselves; here it becomes metrics.
pub(super) struct Retries {
    counter: CounterVec,
    /// What the metrics say already, by whom was asked and why.
    counted: Mutex<HashMap<(&'static str, &'static str), u64>>,
}

impl Retries {
    pub(super) fn new(builder: &Builder) -> prometheus::Result<Self> {
        let described = ("retries_total", "Requests that were sent again, by whom they are for and why");
        Ok(Self { counter: builder.counter(described, &["target", "cause"])?, counted: Mutex::default() })
    }

    /// Takes over what was counted so far.
    pub(super) fn take_over(&self, cluster: &Cluster, stores: &Troubles) {
        for cause in RetryCause::ALL {
            self.put(("api_server", cause.name()), cluster.repeated(cause));
        }
        for trouble in Trouble::ALL {
            self.put(("store", trouble.name()), stores.of(trouble));
        }
    }

    fn put(&self, (target, cause): (&'static str, &'static str), count: u64) {
        let mut counted = lock(&self.counted);
        let known = counted.entry((target, cause)).or_default();
        let further = count.saturating_sub(*known);
        *known += further;
        self.counter.with_label_values(&[target, cause]).inc_by(further as f64);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn what_others_count_is_taken_over_once() {
        let retries = Retries::new(&Builder::new(&Registry::new())).unwrap();
        for count in [2, 2, 5] {
            retries.put(("store", "throttled"), count);
        }
        retries.put(("store", "no_answer"), 0);
        assert_eq!(retries.counter.with_label_values(&["store", "throttled"]).get(), 5.0);
        assert_eq!(retries.counter.with_label_values(&["store", "no_answer"]).get(), 0.0);
    }
}
