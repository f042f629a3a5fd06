//! The API server.

use std::fs;

use anyhow::Result;

use super::{Certificates, Part, answers, etcd};
use crate::install;
use crate::machine::Machine;

/// The real kube-apiserver; it writes an audit log of requests (no bodies) that tests may read.
pub struct KubeApiserver;

const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "None", "verbs": ["get", "list", "watch"]},
  {"level": "None", "resources": [{"group": "coordination.k8s.io"}, {"group": "", "resources": ["events"]}]},
  {"level": "Metadata"}]}"#;

/// Of millions of writes nothing is noted.
const NO_AUDIT: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}]}"#;

impl Part for KubeApiserver {
    fn name(&self) -> &'static str {
        "kube-apiserver"
    }

    fn install(&self) -> Result<()> {
        install::kubernetes().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let certificates = Certificates::folder(machine);
        let file = |name: &str| certificates.join(name).display().to_string();
        let policy = machine.state().join("audit-policy.json");
        fs::write(&policy, if machine.is_roomy() { NO_AUDIT } else { AUDIT_POLICY })?;
        let audit_log = machine.state().join("logs/audit.log");
        let mut shell = machine.command("sh");
        // Half of what the processors do in a run of the tests they do here, and a part of that is looking for memory to
        // free. With a million objects there is none to spare.
        if !machine.is_roomy() {
            shell.env("GOGC", "400");
        }
        machine.start_command(
            self.name(),
            shell,
            machine.kubernetes()?.join("kube-apiserver"),
            [
                format!("--etcd-servers={}", etcd::ENDPOINT),
                format!("--secure-port={}", machine.host_port()),
                "--bind-address=0.0.0.0".into(),
                format!("--advertise-address={}", machine.node_address()),
                format!("--tls-cert-file={}", file("apiserver.crt")),
                format!("--tls-private-key-file={}", file("apiserver.key")),
                format!("--service-account-key-file={}", file("accounts.pub")),
                format!("--service-account-signing-key-file={}", file("accounts.key")),
                "--service-account-issuer=https://kubernetes.default.svc".into(),
                format!("--token-auth-file={}", file("tokens.csv")),
                "--authorization-mode=RBAC,Node".into(),
                format!("--service-cluster-ip-range={}", machine.service_range()),
                "--allow-privileged=true".into(),
                "--kubelet-preferred-address-types=InternalIP".into(),
                format!("--audit-policy-file={}", policy.display()),
                format!("--audit-log-path={}", audit_log.display()),
            ],
        )
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        answers(machine, &format!("https://127.0.0.1:{}/readyz", machine.host_port()))?;
        machine.read("/api/v1/namespaces/default").map(drop)
    }
}
