//! Backs up the cluster of `$KUBECONFIG` into nothing and tells how long it took and how much memory it needed.
//!
//! `cargo run --release -p velero-engine --example backup_into_nothing [namespace…]`

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use velero_api::FeatureFlags;
use velero_api::v1::{Backup, BackupProgress, BackupSpec};
use velero_cluster::{Cluster, ConnectOptions, install_crypto_provider};
use velero_engine::Journal;
use velero_engine::backup::{self, BackupRequest};
use velero_engine::journal::{Level, LogFormat};

/// Counts what it is given.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    install_crypto_provider();
    let cluster = Cluster::connect(&ConnectOptions::default()).await?;
    let features = FeatureFlags::default();
    let included_namespaces: Vec<String> = std::env::args().skip(1).collect();
    let mut backup = Backup::new("velero", "measure", BackupSpec { included_namespaces, ..BackupSpec::default() });
    let asked = backup.spec.clone();
    velero_rules::resource_filter::validate_and_complete(&mut backup.spec);
    let start = Instant::now();
    let discovery = Arc::new(cluster.discover().await?);
    let discovered = start.elapsed();
    let request = BackupRequest {
        actions: velero_plugin_core::builtin(&cluster, &discovery, &features, "velero")?,
        backup,
        asked,
        cluster,
        discovery,
        policies: None,
        features,
        page_size: 500,
        item_block_workers: 1,
        recorder: Default::default(),
        limits: Default::default(),
        owed_hooks: Default::default(),
        copy_means: Default::default(),
    };
    let journal = Journal::for_backup("velero", "measure", LogFormat::Text, Level::Info);
    let (progress, _) = watch::channel(BackupProgress::default());
    let (outcome, sink) = backup::run(request, Counter(0), &journal, progress).await?;
    let took = start.elapsed();
    let items = outcome.progress.items_backed_up;
    println!("{items} items in {took:?} (discovery {discovered:?}): {:.0} a second", items as f64 / took.as_secs_f64());
    println!("archive {} KB, log {} KB", sink.0 / 1000, journal.compressed_log()?.len() / 1000);
    println!("{:?} {:?}", journal.counts(), journal.results());
    let status = std::fs::read_to_string("/proc/self/status")?;
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    Ok(())
}
