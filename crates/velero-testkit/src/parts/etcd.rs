//! etcd, Debian's.

use anyhow::Result;

use super::{Part, answers};
use crate::machine::Machine;

/// The address etcd serves inside the machine.
pub(crate) const ENDPOINT: &str = "http://127.0.0.1:2379";

/// The store behind the API server; it does not wait for the disk, a box need not survive a power cut.
pub struct Etcd;

impl Part for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn install(&self) -> Result<()> {
        crate::install::debian_packages()
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let data = machine.folder("etcd")?.display().to_string();
        // Millions of objects are written many at a time.
        let most_writes = if machine.is_roomy() { "1024" } else { "128" };
        machine.start(
            self.name(),
            "etcd",
            [
                "--data-dir",
                &data,
                "--unsafe-no-fsync",
                "--quota-backend-bytes",
                "8589934592",
                "--max-txn-ops",
                most_writes,
                "--listen-client-urls",
                ENDPOINT,
                "--advertise-client-urls",
                ENDPOINT,
                "--listen-peer-urls",
                "http://127.0.0.1:2380",
            ],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, &format!("{ENDPOINT}/health"))
    }
}
