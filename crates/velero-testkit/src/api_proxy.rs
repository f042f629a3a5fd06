//! A way to the API server of a box on which the answer to a chosen write is lost: the API server has done what it was
//! asked, and whoever asked does not know. What happens at that moment is up to the test, which may end the server there.
//!
//! The real API server answers everything. It speaks TLS only, so `socat` takes that off in front of it.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::faulty_proxy::{self, Action, Request, Rule};
use crate::harness::unique_name;
use crate::machine::wait_until;
use crate::test_box::TestBox;

/// Types whose writes come by the clock, not by what a test asked for.
const BY_THE_CLOCK: [&str; 4] = ["/events", "/backupstoragelocations/", "/serverstatusrequests", "/leases"];

/// What happens when the chosen write has been done.
type Strike = Box<dyn Fn() + Send>;

/// A proxy in front of the API server of a box.
#[derive(Clone)]
pub struct ApiProxy {
    kubeconfig: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// The writes since the proxy was armed, as method and path.
    writes: Vec<String>,
    /// Which write is meant, counted from one; zero means none.
    chosen: usize,
    strike: Option<Strike>,
    struck: Option<String>,
}

impl ApiProxy {
    /// Starts a proxy inside a box. It lives as long as the runtime it is started in, which must be inside the box too.
    pub async fn start(test_box: &TestBox) -> Result<Self> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let kubeconfig = Self::start_with(test_box, Watch(shared.clone())).await?;
        Ok(Self { kubeconfig, shared })
    }

    /// The same with a rule of the caller's own, which decides about every request; gives the kubeconfig that leads through it.
    pub async fn start_with(test_box: &TestBox, rule: impl Rule + 'static) -> Result<PathBuf> {
        let machine = test_box.machine();
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let name = unique_name("api-without-tls");
        let inside = format!("OPENSSL:127.0.0.1:{},verify=0", machine.host_port());
        machine.start(&name, "socat", [format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"), inside])?;
        let plain = format!("127.0.0.1:{port}");
        wait_until("the API server without TLS", Duration::from_secs(10), || {
            std::net::TcpStream::connect(&plain).map(drop).context("nobody listens")
        })?;
        let url = faulty_proxy::start_with(&plain, rule).await?;
        let mut kubeconfig: Value = serde_json::from_slice(&fs::read(test_box.kubeconfig())?)?;
        kubeconfig["clusters"][0]["cluster"] = serde_json::json!({"server": url});
        let path = machine.state().join(format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    /// The kubeconfig that leads through it, with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Counts writes from one again. The answer to that one is lost, after `strike` was called.
    pub fn arm(&self, chosen: usize, strike: impl Fn() + Send + 'static) {
        *self.shared() = Shared { chosen, strike: Some(Box::new(strike)), ..Shared::default() };
    }

    /// Lets everything pass. Gives the write whose answer was lost, if it came to that, and all writes.
    pub fn disarm(&self) -> (Option<String>, Vec<String>) {
        let Shared { struck, writes, .. } = std::mem::take(&mut *self.shared());
        (struck, writes)
    }

    /// Whether the chosen write has come.
    pub fn has_struck(&self) -> bool {
        self.shared().struck.is_some()
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watch(Arc<Mutex<Shared>>);

impl Rule for Watch {
    fn action(&self, request: &Request) -> Action {
        if !is_counted(&request.method, &request.path) {
            return Action::Forward;
        }
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let write = format!("{} {}", request.method, request.path);
        shared.writes.push(write.clone());
        if shared.writes.len() == shared.chosen {
            shared.struck = Some(write);
            return Action::CutAnswer(0);
        }
        Action::Forward
    }

    fn lost(&self) {
        let strike = self.0.lock().unwrap_or_else(PoisonError::into_inner).strike.take();
        if let Some(strike) = strike {
            strike();
        }
    }
}

fn is_counted(method: &str, path: &str) -> bool {
    let is_write = ["POST", "PUT", "PATCH", "DELETE"].contains(&method);
    let is_question = path.starts_with("/apis/authorization.k8s.io/") || path.contains("dryRun=");
    is_write && !is_question && !BY_THE_CLOCK.iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::is_counted;

    #[test]
    fn writes_count_and_what_comes_by_the_clock_does_not() {
        for (method, path, counts) in [
            ("PATCH", "/apis/velero.io/v1/namespaces/velero/backups/b", true),
            ("POST", "/api/v1/namespaces", true),
            ("DELETE", "/apis/velero.io/v1/namespaces/velero/deletebackuprequests/d", true),
            ("GET", "/apis/velero.io/v1/namespaces/velero/backups/b", false),
            ("PATCH", "/apis/velero.io/v1/namespaces/velero/backupstoragelocations/default/status", false),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/velero/leases/velero-server", false),
            ("POST", "/apis/events.k8s.io/v1/namespaces/velero/events", false),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false),
        ] {
            assert_eq!(is_counted(method, path), counts, "{method} {path}");
        }
    }
}
