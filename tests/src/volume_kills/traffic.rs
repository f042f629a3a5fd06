//! A store that takes its time with the blobs of repositories, and counts them: so there are moments to kill at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use velero_testkit::faulty_proxy::{self, Action, Request, Rule};
use velero_testkit::{TestBox, VeleroServer};

/// How long the store waits before it takes or gives a blob.
const PAUSE: Duration = Duration::from_millis(1500);

/// What has been asked of the store since it was last forgotten.
#[derive(Clone, Default)]
pub(super) struct Traffic {
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    packs_written: AtomicUsize,
    indexes_written: AtomicUsize,
    packs_read: AtomicUsize,
}

impl Traffic {
    /// Puts a slow store in front of the location of a server.
    pub(super) async fn start(server: &VeleroServer) -> Result<Self> {
        let traffic = Self::default();
        let address = server.machine().node_address();
        let url = faulty_proxy::start_at(address, &TestBox::store_url_for_pods(), traffic.clone()).await?;
        let known = server.object("backupstoragelocations", "default")?;
        let mut location = json!({
            "apiVersion": known["apiVersion"], "kind": known["kind"], "spec": known["spec"],
            "metadata": {"name": "default", "namespace": server.namespace()},
        });
        location["spec"]["config"]["s3Url"] = json!(url);
        server.machine().apply(&location.to_string())?;
        server.wait_for_location("default")?;
        Ok(traffic)
    }

    /// Begins to count anew.
    pub(super) fn forget(&self) {
        for count in [&self.seen.packs_written, &self.seen.indexes_written, &self.seen.packs_read] {
            count.store(0, Ordering::SeqCst);
        }
    }

    pub(super) fn packs_written(&self) -> usize {
        self.seen.packs_written.load(Ordering::SeqCst)
    }

    pub(super) fn indexes_written(&self) -> usize {
        self.seen.indexes_written.load(Ordering::SeqCst)
    }

    pub(super) fn packs_read(&self) -> usize {
        self.seen.packs_read.load(Ordering::SeqCst)
    }
}

impl Rule for Traffic {
    fn action(&self, request: &Request) -> Action {
        let path = request.path.split('?').next().unwrap_or_default();
        let blob = path.rsplit('/').next().unwrap_or_default();
        if !path.contains("/kopia/") {
            return Action::Forward;
        }
        let count = match (request.method.as_str(), blob.chars().next()) {
            ("PUT", Some('p')) => &self.seen.packs_written,
            ("PUT", Some('x' | 'n')) => &self.seen.indexes_written,
            ("GET", Some('p')) => &self.seen.packs_read,
            _ => return Action::Forward,
        };
        count.fetch_add(1, Ordering::SeqCst);
        Action::Delay(PAUSE)
    }
}
