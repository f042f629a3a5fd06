//! Our stand-in for the image streams of OpenShift, as an aggregated API server of the box.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Result;
use serde_json::{Value, json};
use velero_openshift_standin::{GROUP, VERSION};

use super::{Certificates, InternalRegistry, Part};
use crate::install;
use crate::machine::Machine;
use crate::registry::{REGISTRY_PASSWORD, REGISTRY_USER};

const PACKAGE: &str = "velero-openshift-standin";
/// The ports on the loopback of the box.
const PORT: u16 = 18443;
const EVENTS_PORT: u16 = 18082;
/// The namespace that OpenShift keeps its own image streams in.
const NAMESPACE: &str = "openshift";

/// Runs the stand-in, and makes the box say that it is OpenShift.
pub struct OpenShiftStandin;

impl OpenShiftStandin {
    /// The path of the stand-in, built once by each process that asks.
    pub fn binary() -> Result<PathBuf> {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        if let Some(built) = BINARY.get() {
            return Ok(built.clone());
        }
        let built = install::package_binary(PACKAGE, PACKAGE, "dev")?;
        Ok(BINARY.get_or_init(|| built).clone())
    }

    /// Where the registry of the box tells of pushes.
    pub(super) fn events_url() -> String {
        format!("http://127.0.0.1:{EVENTS_PORT}/events")
    }
}

impl Part for OpenShiftStandin {
    fn name(&self) -> &'static str {
        "openshift-standin"
    }

    fn install(&self) -> Result<()> {
        Self::binary().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let certificates = Certificates::folder(machine);
        machine.start(
            self.name(),
            Self::binary()?,
            [
                format!("--port={PORT}"),
                format!("--events-port={EVENTS_PORT}"),
                format!("--certificate={}", certificates.join("apiserver.crt").display()),
                format!("--key={}", certificates.join("apiserver.key").display()),
                format!("--registry={}", InternalRegistry::host(machine)),
                format!("--registry-user={REGISTRY_USER}"),
                format!("--registry-password={REGISTRY_PASSWORD}"),
                format!("--kubeconfig={}", Certificates::kubeconfig(machine).display()),
            ],
        )?;
        machine.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string())
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        let streams = format!("/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/imagestreams");
        machine.read(&streams).map(drop)
    }
}

/// The API server asks the stand-in by a service that is nothing but the name `localhost`.
fn objects() -> [Value; 5] {
    let service = json!({"name": "image-api", "namespace": NAMESPACE});
    let mut reached_by = service.clone();
    reached_by["port"] = PORT.into();
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": service,
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": PORT}]},
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{VERSION}.{GROUP}")},
            "spec": {
                "group": GROUP, "version": VERSION, "service": reached_by, "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 1000, "versionPriority": 15,
            },
        }),
        cluster_version(),
        json!({
            "apiVersion": "imageregistry.operator.openshift.io/v1", "kind": "Config", "metadata": {"name": "cluster"},
            "spec": {"managementState": "Managed"},
        }),
    ]
}

/// With the capability `ImageRegistry` it says that pull secrets are made, so that restores wait for them.
fn cluster_version() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "velero-box"},
        "status": {
            "desired": {"version": "4.16.0"},
            "capabilities": {"enabledCapabilities": ["Build", "DeploymentConfig", "ImageRegistry"]},
        },
    })
}
