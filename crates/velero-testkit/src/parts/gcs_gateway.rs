//! A server for the protocol our Google Cloud Storage client speaks, in the store's machine.
//!
//! That protocol is Google's XML API. It is S3's, with a bearer token in place of S3's signature, so a gateway of
//! SeaweedFS that asks for no signature serves all of it. The emulators that imitate Google's JSON API do not: they
//! take neither plain nor multipart uploads through the XML API.

use anyhow::{Result, ensure};

use super::{Door, Part, STORE_ADDRESS, StorePart};
use crate::machine::Machine;
use crate::tool::Tool;

/// The bucket that is there from the start. Parts can be uploaded only into buckets made through the gateway.
pub const GCS_BUCKET: &str = "gcs-velero";
const PORT: u16 = 28335;

/// The gateway; every token is good.
pub struct GcsGateway;

impl GcsGateway {
    /// Its address on this host's loopback, for `storeEndpoint`.
    pub fn url() -> String {
        format!("http://127.0.0.1:{PORT}")
    }
}

impl Part for GcsGateway {
    fn name(&self) -> &'static str {
        "gcs-gateway"
    }

    fn install(&self) -> Result<()> {
        Tool::SeaweedFs.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        machine.start(
            self.name(),
            Tool::SeaweedFs.path()?,
            [
                "s3".into(),
                format!("-filer={STORE_ADDRESS}:8888"),
                "-ip.bind=0.0.0.0".into(),
                format!("-port={PORT}"),
                "-port.iceberg=0".into(),
                "-port.lance=0".into(),
            ],
        )
    }

    /// Making the bucket is the check: it needs every layer of the store, and shows that no signature is asked for.
    fn check(&self, machine: &Machine) -> Result<()> {
        let url = format!("http://{STORE_ADDRESS}:{PORT}/{GCS_BUCKET}");
        let request = ["--silent", "--show-error", "--max-time", "5", "--request", "PUT", "--output", "/dev/null"];
        let status = machine.run("curl", request.iter().chain(&["--write-out", "%{http_code}", &url]))?;
        ensure!(status == "200" || status == "409", "PUT {url} answers {status}");
        Ok(())
    }
}

impl StorePart for GcsGateway {
    fn door(&self) -> Door {
        Door::new("gcs-gateway-door", PORT, format!("{STORE_ADDRESS}:{PORT}"))
    }
}
