//! The metrics of a node agent, by the names of Velero's.

use prometheus::{Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

use crate::runtime::error::Result;

const PREFIX: &str = "podVolume";
const NODE: &str = "node";
const OPERATION_LABELS: [&str; 4] = [NODE, "operation", "backupName", "pod_volume_backup"];
const BUCKETS: [f64; 9] = [60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0];

/// What is counted by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeCounter {
    BackupEnqueue,
    BackupDequeue,
    UploadSuccess,
    UploadFailure,
    UploadCancel,
    DownloadSuccess,
    DownloadFailure,
    DownloadCancel,
}

impl NodeCounter {
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::BackupEnqueue, "pod_volume_backup_enqueue_count", "Pod volume backups that began"),
        (Self::BackupDequeue, "pod_volume_backup_dequeue_count", "Pod volume backups that ended"),
        (Self::UploadSuccess, "data_upload_success_total", "Snapshots that were uploaded"),
        (Self::UploadFailure, "data_upload_failure_total", "Snapshots whose upload failed"),
        (Self::UploadCancel, "data_upload_cancel_total", "Snapshots whose upload was cancelled"),
        (Self::DownloadSuccess, "data_download_success_total", "Snapshots that were downloaded"),
        (Self::DownloadFailure, "data_download_failure_total", "Snapshots whose download failed"),
        (Self::DownloadCancel, "data_download_cancel_total", "Snapshots whose download was cancelled"),
    ];
}

/// The metrics of a node agent.
pub(crate) struct NodeMetrics {
    registry: Registry,
    node: String,
    counters: Vec<IntCounterVec>,
    latency: HistogramVec,
    latency_gauge: GaugeVec,
}

impl NodeMetrics {
    /// All series of the node, at zero.
    pub(crate) fn new(node: &str) -> Result<Self> {
        let registry = Registry::new();
        let mut counters = Vec::new();
        for (_, name, help) in NodeCounter::ALL {
            let counter = IntCounterVec::new(Opts::new(name, help).namespace(PREFIX), &[NODE])?;
            registry.register(Box::new(counter.clone()))?;
            counter.with_label_values(&[node]);
            counters.push(counter);
        }
        let help = "How long pod volume operations took, in seconds";
        let histogram = HistogramOpts::new("pod_volume_operation_latency_seconds", help).namespace(PREFIX);
        let latency = HistogramVec::new(histogram.buckets(BUCKETS.to_vec()), &OPERATION_LABELS)?;
        let gauge = Opts::new("pod_volume_operation_latency_seconds_gauge", help).namespace(PREFIX);
        let latency_gauge = GaugeVec::new(gauge, &OPERATION_LABELS)?;
        registry.register(Box::new(latency.clone()))?;
        registry.register(Box::new(latency_gauge.clone()))?;
        let process = prometheus::process_collector::ProcessCollector::for_self();
        registry.register(Box::new(process))?;
        Ok(Self { registry, node: node.to_owned(), counters, latency, latency_gauge })
    }

    /// Counts one more.
    pub(crate) fn count(&self, counter: NodeCounter) {
        self.counters[counter as usize].with_label_values(&[&self.node]).inc();
    }

    /// Notes how long the backup of a pod's volume took.
    pub(crate) fn took(&self, backup: &str, pod_volume_backup: &str, seconds: f64) {
        let labels = [self.node.as_str(), "backup", backup, pod_volume_backup];
        self.latency.with_label_values(&labels).observe(seconds);
        self.latency_gauge.with_label_values(&labels).set(seconds);
    }

    /// All metrics in the text form that Prometheus reads.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "The metrics cannot be written");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_names_of_velero_are_there() {
        let metrics = NodeMetrics::new("n1").unwrap();
        for (number, (counter, _, _)) in NodeCounter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, number);
            metrics.count(counter);
        }
        metrics.took("b", "b-x", 70.0);
        let text = String::from_utf8(metrics.text()).unwrap();
        for (_, name, _) in NodeCounter::ALL {
            assert!(text.contains(&format!("podVolume_{name}{{node=\"n1\"}} 1")), "{name} is missing in\n{text}");
        }
        let labels = "{backupName=\"b\",node=\"n1\",operation=\"backup\",pod_volume_backup=\"b-x\"";
        for line in [
            format!("podVolume_pod_volume_operation_latency_seconds_gauge{labels}}} 70"),
            format!("podVolume_pod_volume_operation_latency_seconds_bucket{labels},le=\"60\"}} 0"),
            format!("podVolume_pod_volume_operation_latency_seconds_bucket{labels},le=\"300\"}} 1"),
        ] {
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
    }
}
