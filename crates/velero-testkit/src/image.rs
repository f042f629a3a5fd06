//! Container images made without a container engine: one layer, as an OCI archive that containerd imports.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// The authorities this host trusts; without any, no connection to an object store can be set up.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An image being put together.
pub struct Image {
    name: String,
    configuration: Value,
    entries: Vec<Entry>,
    created: Option<String>,
    is_compressed: bool,
}

enum Entry {
    File { source: PathBuf, path: String },
    Link { target: String, path: String },
}

impl Image {
    /// An image of that full name, with the folders every program expects.
    pub fn new(name: &str) -> Self {
        let configuration = json!({"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]});
        Self { name: name.to_owned(), configuration, entries: Vec::new(), created: None, is_compressed: false }
    }

    /// The image of our own binary: it, the shared libraries it needs on this host, the certificates it trusts, and no
    /// shell.
    pub fn of_velero(name: &str, binary: &Path) -> Result<Self> {
        let image = Self::new(name).file(binary, "velero").entrypoint(&["/velero"]).user("65532:65532");
        image.file(Path::new(CERTIFICATES), CERTIFICATES).with_libraries_of(binary)
    }

    /// The image of a plugin for `velero plugin add`: the binary copies itself beside the server.
    pub fn of_plugin(name: &str, binary: &Path) -> Result<Self> {
        let file = binary.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        let image = Self::new(name).file(binary, &file).user("65532:65532");
        image.entrypoint(&[&format!("/{file}"), "install", "/target"]).with_libraries_of(binary)
    }

    fn with_libraries_of(self, binary: &Path) -> Result<Self> {
        let libraries = shared_libraries(binary)?;
        Ok(libraries.iter().fold(self, |image, library| image.file(library, &library.display().to_string())))
    }

    /// Adds a file of this host, executable by all.
    #[must_use]
    pub fn file(mut self, source: &Path, path: &str) -> Self {
        self.entries.push(Entry::File { source: source.to_owned(), path: path.trim_start_matches('/').to_owned() });
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, target: &str, path: &str) -> Self {
        self.entries.push(Entry::Link { target: target.to_owned(), path: path.to_owned() });
        self
    }

    /// Sets the program that always runs.
    #[must_use]
    pub fn entrypoint(self, arguments: &[&str]) -> Self {
        self.configure("Entrypoint", json!(arguments))
    }

    /// Sets the program that runs unless a pod names another.
    #[must_use]
    pub fn command(self, arguments: &[&str]) -> Self {
        self.configure("Cmd", json!(arguments))
    }

    /// Sets the user the program runs as.
    #[must_use]
    pub fn user(self, user: &str) -> Self {
        self.configure("User", json!(user))
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.configuration["Labels"][key] = json!(value);
        self
    }

    /// Says when it was made, as RFC 3339 writes it; an image that does not say is older than all others.
    #[must_use]
    pub fn created(mut self, time: &str) -> Self {
        self.created = Some(time.to_owned());
        self
    }

    /// Has its layer compressed: it is smaller, and takes longer to make.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.is_compressed = true;
        self
    }

    fn configure(mut self, key: &str, value: Value) -> Self {
        self.configuration[key] = value;
        self
    }

    /// Writes the archive.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let layer = self.layer()?;
        let mut configuration = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": self.configuration,
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        if let Some(created) = &self.created {
            configuration["created"] = json!(created);
        }
        let configuration = serde_json::to_vec(&configuration)?;
        let (layer, layer_type) = match self.is_compressed {
            true => (compress(&layer)?, "application/vnd.oci.image.layer.v1.tar+gzip"),
            false => (layer, "application/vnd.oci.image.layer.v1.tar"),
        };
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &configuration),
            "layers": [descriptor(layer_type, &layer)],
        }))?;
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        entry["annotations"] =
            json!({"io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": self.name});
        let index = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": [entry]}))?;

        let mut builder =
            Builder::new(File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?);
        append(&mut builder, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append(&mut builder, "index.json", &index)?;
        for blob in [&layer, &configuration, &manifest] {
            append(&mut builder, &format!("blobs/sha256/{}", digest(blob).trim_start_matches("sha256:")), blob)?;
        }
        builder.into_inner()?;
        Ok(())
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for (folder, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("var", 0o755), ("data", 0o777)] {
            let mut header = header(EntryType::Directory, 0, mode);
            builder.append_data(&mut header, format!("{folder}/"), std::io::empty())?;
        }
        for entry in &self.entries {
            match entry {
                Entry::File { source, path } => {
                    let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
                    append(&mut builder, path, &content)?;
                }
                Entry::Link { target, path } => {
                    builder.append_link(&mut header(EntryType::Symlink, 0, 0o777), path, target)?
                }
            }
        }
        Ok(builder.into_inner()?)
    }
}

/// The shared libraries a binary needs, as `ldd` finds them on this host.
fn shared_libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(binary).output().context("cannot start ldd")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    ensure!(output.status.success(), "ldd {}: {}", binary.display(), complaint.trim());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// The name containers use for the processor of this host.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The same bytes for the same content.
fn compress(content: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    gzip.write_all(content)?;
    Ok(gzip.finish()?)
}

fn append<W: Write>(builder: &mut Builder<W>, path: &str, content: &[u8]) -> Result<()> {
    builder.append_data(&mut header(EntryType::Regular, content.len() as u64, 0o755), path, content)?;
    Ok(())
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(content), "size": content.len()})
}

pub(crate) fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
