//! The metrics of a node agent, by the names of Velero's.

use std::collections::HashMap;
use std::sync::Mutex;

use prometheus::{CounterVec, Encoder, GaugeVec, HistogramVec, Registry, TextEncoder};
use velero_api::DataMovePhase;

use crate::runtime::error::Result;
use crate::runtime::lock::lock;
use crate::runtime::metrics::builder::Builder;
use crate::runtime::metrics::reference::{MetricDescription, table};

const PREFIX: &str = "podVolume";
const NODE: &str = "node";
const OPERATION_LABELS: [&str; 4] = [NODE, "operation", "backupName", "pod_volume_backup"];
const NODE_AND_KIND: [&str; 2] = [NODE, "kind"];

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
    counters: Vec<CounterVec>,
    latency: HistogramVec,
    latency_gauge: GaugeVec,
    transfers: CounterVec,
    bytes: CounterVec,
    duration: HistogramVec,
    /// What there is, for the documentation.
    described: Vec<MetricDescription>,
    /// The PodVolumeBackups of which there are series, with their backups.
    measured: Mutex<HashMap<String, String>>,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedTransfer<'a> {
    pub(crate) kind: &'a str,
    pub(crate) phase: &'a DataMovePhase,
    pub(crate) bytes: i64,
    pub(crate) seconds: Option<f64>,
}

impl NodeMetrics {
    /// All series of the node, at zero.
    pub(crate) fn new(node: &str) -> Result<Self> {
        let registry = Registry::new();
        let builder = Builder::new(&registry);
        let mut counters = Vec::new();
        for (_, name, help) in NodeCounter::ALL {
            let counter = builder.counter_of(PREFIX, (name, help), &[NODE])?;
            counter.with_label_values(&[node]);
            counters.push(counter);
        }
        let (latency, help) =
            ("pod_volume_operation_latency_seconds", "How long pod volume operations took, in seconds");
        let latency_gauge = format!("{latency}_gauge");
        let transfers = ("volume_transfers_total", "Transfers of volume data that ended, by how they did");
        let bytes = ("volume_transfer_bytes_total", "Bytes of volumes that were saved or filled");
        let duration = ("volume_transfer_duration_seconds", "How long transfers of volume data took, in seconds");
        let metrics = Self {
            latency: builder.histogram_of(PREFIX, latency, help, &OPERATION_LABELS)?,
            latency_gauge: builder.gauges_of(PREFIX, &latency_gauge, help, &OPERATION_LABELS)?,
            transfers: builder.counter(transfers, &[NODE, "kind", "phase"])?,
            bytes: builder.counter(bytes, &NODE_AND_KIND)?,
            duration: builder.histogram(duration.0, duration.1, &NODE_AND_KIND)?,
            described: builder.described(),
            registry,
            node: node.to_owned(),
            counters,
            measured: Mutex::default(),
        };
        #[cfg(target_os = "linux")]
        metrics.registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(metrics)
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
        lock(&self.measured).insert(pod_volume_backup.to_owned(), backup.to_owned());
    }

    /// Removes the series of a PodVolumeBackup that is gone.
    pub(crate) fn end(&self, pod_volume_backup: &str) {
        let Some(backup) = lock(&self.measured).remove(pod_volume_backup) else { return };
        let labels = [self.node.as_str(), "backup", &backup, pod_volume_backup];
        let _ = self.latency.remove_label_values(&labels);
        let _ = self.latency_gauge.remove_label_values(&labels);
    }

    /// Notes how a transfer of any kind ended.
    pub(crate) fn ended(&self, transfer: EndedTransfer<'_>) {
        let labels = [self.node.as_str(), transfer.kind];
        self.transfers.with_label_values(&[labels[0], labels[1], transfer.phase.as_str()]).inc();
        self.bytes.with_label_values(&labels).inc_by(transfer.bytes.max(0) as f64);
        if let Some(seconds) = transfer.seconds {
            self.duration.with_label_values(&labels).observe(seconds);
        }
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

/// The metrics of node agents as a table in Markdown: name, type, labels, meaning.
pub fn node_agent_metrics_table() -> Result<String> {
    Ok(table(&NodeMetrics::new("")?.described))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_all_metrics_of_node_agents() {
        let page = include_str!("../../../../docs/monitoring.md");
        let table = node_agent_metrics_table().unwrap();
        assert!(page.contains(&table), "docs/monitoring.md must have this table:\n{table}");
    }

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
    #[test]
    fn the_series_of_a_pod_volume_backup_go_with_it() {
        let metrics = NodeMetrics::new("n1").unwrap();
        metrics.took("b", "b-x", 70.0);
        metrics.end("b-y");
        assert!(String::from_utf8(metrics.text()).unwrap().contains("b-x"));
        metrics.end("b-x");
        assert!(!String::from_utf8(metrics.text()).unwrap().contains("b-x"));
    }

    #[test]
    fn transfers_are_counted_by_kind_and_end() {
        let metrics = NodeMetrics::new("n1").unwrap();
        let ended =
            EndedTransfer { kind: "DataUpload", phase: &DataMovePhase::Completed, bytes: 7, seconds: Some(61.0) };
        metrics.ended(ended);
        metrics.ended(EndedTransfer { phase: &DataMovePhase::Failed, seconds: None, ..ended });
        let text = String::from_utf8(metrics.text()).unwrap();
        for line in [
            r#"velero_volume_transfers_total{kind="DataUpload",node="n1",phase="Completed"} 1"#,
            r#"velero_volume_transfers_total{kind="DataUpload",node="n1",phase="Failed"} 1"#,
            r#"velero_volume_transfer_bytes_total{kind="DataUpload",node="n1"} 14"#,
            r#"velero_volume_transfer_duration_seconds_count{kind="DataUpload",node="n1"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
