//! Images of random content, made as an OCI layout: a folder that `skopeo` reads.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ContainerRegistry, skopeo};
use crate::image::{descriptor, digest};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A folder of images.
pub struct Layout {
    folder: TempDir,
    entries: Vec<Value>,
}

impl Layout {
    /// An empty layout.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("velero-layout-").tempdir()?;
        fs::create_dir_all(folder.path().join("blobs/sha256"))?;
        fs::write(folder.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(Self { folder, entries: Vec::new() })
    }

    /// Makes an image for a processor, with one random layer a size. Gives its descriptor.
    pub fn image(&self, architecture: &str, layers: &[usize]) -> Result<Value> {
        let mut descriptors = Vec::new();
        for size in layers {
            let layer = random_layer(*size)?;
            self.write(&layer)?;
            descriptors.push(descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer));
        }
        let layer_digests: Vec<&Value> = descriptors.iter().map(|descriptor| &descriptor["digest"]).collect();
        let configuration = serde_json::to_vec(&json!({
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": layer_digests},
        }))?;
        self.write(&configuration)?;
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &configuration),
            "layers": descriptors,
        }))?;
        self.write(&manifest)?;
        let mut entry = descriptor(MANIFEST, &manifest);
        entry["platform"] = json!({"os": "linux", "architecture": architecture});
        Ok(entry)
    }

    /// Makes an index of images. Gives its descriptor.
    pub fn index(&self, images: &[Value]) -> Result<Value> {
        let index = serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images}))?;
        self.write(&index)?;
        Ok(descriptor(INDEX, &index))
    }

    /// Brings an image or an index, all of it, into a registry that serves everybody; `name` is `repository:tag`.
    pub fn push(&mut self, image: &Value, registry: &ContainerRegistry, name: &str) -> Result<()> {
        let label = format!("v{}", self.entries.len());
        let mut entry = image.clone();
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": label});
        self.entries.push(entry);
        let index = json!({"schemaVersion": 2, "manifests": self.entries});
        fs::write(self.folder.path().join("index.json"), index.to_string())?;
        let source = format!("oci:{}:{label}", self.folder.path().display());
        let destination = format!("docker://{}/{name}", registry.host());
        let arguments = ["copy", "--all", "--preserve-digests", "--dest-tls-verify=false", &source, &destination];
        skopeo(arguments).with_context(|| format!("cannot push {name}")).map(drop)
    }

    fn write(&self, blob: &[u8]) -> Result<()> {
        Ok(fs::write(blob_path(self.folder.path(), &digest(blob)), blob)?)
    }
}

fn blob_path(folder: &Path, digest: &str) -> PathBuf {
    folder.join("blobs/sha256").join(digest.trim_start_matches("sha256:"))
}

/// Random bytes that are a gzip stream all the same, so that no tool compresses them anew.
fn random_layer(size: usize) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(size + size / 1_000 + 64), Compression::none());
    let mut random = File::open("/dev/urandom")?;
    let mut buffer = vec![0; 1 << 20];
    let mut left = size;
    while left > 0 {
        let piece = &mut buffer[..left.min(1 << 20)];
        random.read_exact(piece)?;
        encoder.write_all(piece)?;
        left -= piece.len();
    }
    Ok(encoder.finish()?)
}
