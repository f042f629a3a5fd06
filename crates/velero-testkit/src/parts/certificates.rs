//! Keys and certificates of a box: one authority, the API server's certificate, the key that signs service accounts.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::Part;
use crate::machine::Machine;

/// The token of the box's administrator.
const ADMIN_TOKEN: &str = "velero-box-administrator";

/// Writes the keys, the certificates and the administrator's kubeconfig.
pub struct Certificates;

impl Certificates {
    /// The folder with `ca.crt`, `apiserver.crt`, `apiserver.key`, `accounts.key`, `accounts.pub` and `tokens.csv`.
    pub fn folder(machine: &Machine) -> PathBuf {
        machine.state().join("certificates")
    }

    /// The administrator's kubeconfig; it works inside the machine and, through the door, outside.
    pub fn kubeconfig(machine: &Machine) -> PathBuf {
        machine.state().join("admin.kubeconfig")
    }
}

const SCRIPT: &str = r#"
set -e
cd "$1"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
key ca.key
openssl req -x509 -new -key ca.key -days 3650 -subj /CN=velero-box -out ca.crt
key apiserver.key
openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out apiserver.csr
openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile names.conf -out apiserver.crt
key accounts.key
openssl ec -in accounts.key -pubout -out accounts.pub
"#;

impl Part for Certificates {
    fn name(&self) -> &'static str {
        "certificates"
    }

    fn install(&self) -> Result<()> {
        Ok(())
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let folder = machine.folder("certificates")?;
        fs::write(folder.join("names.conf"), names(machine))?;
        fs::write(folder.join("tokens.csv"), format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"))?;
        let folder = folder.display().to_string();
        machine.run("sh", ["-c", SCRIPT, "sh", &folder])?;
        fs::write(Self::kubeconfig(machine), kubeconfig(machine))?;
        Ok(())
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        ensure!(Self::folder(machine).join("accounts.pub").exists(), "no keys yet");
        Ok(())
    }
}

fn names(machine: &Machine) -> String {
    let services =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
    let services: Vec<String> = services.iter().map(|name| format!("DNS:{name}")).collect();
    format!(
        "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1,IP:{},IP:{},{}\n",
        machine.node_address(),
        machine.api_service_address(),
        services.join(",")
    )
}

fn kubeconfig(machine: &Machine) -> String {
    let server = format!("https://127.0.0.1:{}", machine.host_port());
    let authority = Certificates::folder(machine).join("ca.crt");
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": machine.name, "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": machine.name, "context": {"cluster": machine.name, "user": "admin"}}],
        "current-context": machine.name,
    })
    .to_string()
}
