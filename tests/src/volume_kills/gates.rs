//! A store that holds the requests of chosen movers until it is told to let them pass: so there are moments to kill at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use velero_testkit::faulty_proxy::{self, Action, Request, Rule};
use velero_testkit::{TestBox, VeleroServer};

/// How often a held request asks whether it may pass.
const ASK: Duration = Duration::from_millis(50);

/// Which requests to a repository are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Whoever opens it.
    Opening,
    /// Writes of data.
    Packs,
    /// Writes of what names the data.
    Indexes,
    /// Reads of data.
    Reading,
}

impl Held {
    fn is(self, method: &str, blob: &str) -> bool {
        match self {
            Self::Opening => method == "GET" && blob == "kopia.repository",
            Self::Packs => method == "PUT" && blob.starts_with('p'),
            Self::Indexes => method == "PUT" && blob.starts_with(['x', 'n']),
            Self::Reading => method == "GET" && blob.starts_with('p'),
        }
    }
}

/// The gates in front of repositories, by the namespaces these are of.
#[derive(Clone, Default)]
pub(super) struct Gates(Arc<Mutex<HashMap<String, Gate>>>);

struct Gate {
    held: Held,
    is_reached: bool,
}

impl Gates {
    /// Puts a store with gates in front of the location of a server. All are open.
    pub(super) async fn start(server: &VeleroServer) -> Result<Self> {
        let gates = Self::default();
        let address = server.machine().node_address();
        let url = faulty_proxy::start_at(address, &TestBox::store_url_for_pods(), gates.clone()).await?;
        let known = server.object("backupstoragelocations", "default")?;
        let mut location = json!({
            "apiVersion": known["apiVersion"], "kind": known["kind"], "spec": known["spec"],
            "metadata": {"name": "default", "namespace": server.namespace()},
        });
        location["spec"]["config"]["s3Url"] = json!(url);
        server.machine().apply(&location.to_string())?;
        server.wait_for_location("default")?;
        Ok(gates)
    }

    pub(super) fn close(&self, namespace: &str, held: Held) {
        self.all().insert(namespace.to_owned(), Gate { held, is_reached: false });
    }

    pub(super) fn open(&self, namespace: &str) {
        self.all().remove(namespace);
    }

    /// Whether somebody waits in front of a closed gate.
    pub(super) fn is_reached(&self, namespace: &str) -> bool {
        self.all().get(namespace).is_some_and(|gate| gate.is_reached)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rule for Gates {
    fn action(&self, request: &Request) -> Action {
        let path = request.path.split('?').next().unwrap_or_default();
        let Some((namespace, blob)) = path.split_once("/kopia/").and_then(|(_, rest)| rest.split_once('/')) else {
            return Action::Forward;
        };
        match self.all().get_mut(namespace) {
            Some(gate) if gate.held.is(&request.method, blob) => {
                gate.is_reached = true;
                Action::AskAgain(ASK)
            }
            _ => Action::Forward,
        }
    }
}
