//! SeaweedFS: the S3 server, in a machine of its own that all boxes reach.

use std::fs;
use std::net::Ipv4Addr;

use anyhow::Result;
use serde_json::json;

use super::Part;
use crate::machine::Machine;
use crate::tool::Tool;

/// The network between the store and the boxes, a prefix of 24 bits.
pub const STORE_NETWORK: [u8; 3] = [172, 31, 0];
/// The store's address in that network: what pods use.
pub const STORE_ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 1);
/// The port of the S3 protocol, the same inside and on this host's loopback.
pub const STORE_PORT: u16 = 28333;
/// The bucket that is there from the start.
pub const BUCKET: &str = "velero";
/// The access key that may do everything.
pub const ACCESS_KEY: &str = "velero-box";
/// Its secret.
pub const SECRET_KEY: &str = "velero-box-secret";

/// Its processes speak through sockets with fixed names in the folder of temporary files: two stores with one such folder, as two sets
/// of boxes have them, would put their volumes into each other.
const OWN_TEMPORARY_FILES: &str = r#"mount -t tmpfs tmpfs /tmp && exec "$@""#;

/// The S3 server.
pub struct SeaweedFs;

impl Part for SeaweedFs {
    fn name(&self) -> &'static str {
        "seaweedfs"
    }

    fn install(&self) -> Result<()> {
        Tool::SeaweedFs.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let identities = json!({"identities": [{
            "name": "velero",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }]});
        let configuration = machine.state().join("identities.json");
        fs::write(&configuration, identities.to_string())?;
        let program = Tool::SeaweedFs.path()?.display().to_string();
        machine.start(
            self.name(),
            "unshare",
            [
                "--mount".into(),
                "--propagation=private".into(),
                "sh".into(),
                "-c".into(),
                OWN_TEMPORARY_FILES.into(),
                "sh".into(),
                program,
                "server".into(),
                format!("-dir={}", machine.folder("store")?.display()),
                format!("-ip={STORE_ADDRESS}"),
                "-ip.bind=0.0.0.0".into(),
                "-volume.port=8334".into(),
                "-volume.max=200".into(),
                "-master.volumeSizeLimitMB=64".into(),
                "-s3".into(),
                format!("-s3.port={STORE_PORT}"),
                format!("-s3.config={}", configuration.display()),
            ],
        )
    }

    /// Making the bucket is the check: it needs every layer of the store.
    fn check(&self, machine: &Machine) -> Result<()> {
        machine.make_bucket(BUCKET)
    }
}

impl Machine {
    /// Makes a bucket in the store that runs on this machine; one that exists is fine.
    pub fn make_bucket(&self, bucket: &str) -> Result<()> {
        self.ask_for_bucket("PUT", bucket, &["200", "409"])
    }

    /// Removes a bucket with everything in it; one that does not exist is fine.
    pub fn remove_bucket(&self, bucket: &str) -> Result<()> {
        self.ask_for_bucket("DELETE", bucket, &["204", "404"])
    }

    fn ask_for_bucket(&self, method: &str, bucket: &str, expected: &[&str]) -> Result<()> {
        let url = format!("http://{STORE_ADDRESS}:{STORE_PORT}/{bucket}");
        let keys = format!("{ACCESS_KEY}:{SECRET_KEY}");
        let status = self.run(
            "curl",
            ["--silent", "--show-error", "--max-time", "5", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &keys]
                .into_iter()
                .chain(["--request", method, "--output", "/dev/null", "--write-out", "%{http_code}", &url]),
        )?;
        anyhow::ensure!(expected.contains(&status.as_str()), "{method} {url} answers {status}");
        Ok(())
    }
}
