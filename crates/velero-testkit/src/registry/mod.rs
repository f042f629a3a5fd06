//! Real container registries on loopback: Debian's `docker-registry`, one process each, gone with the value.

mod layout;
mod token_realm;

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::install;
use crate::machine::wait_until;

pub use layout::Layout;
pub use token_realm::TokenRealm;

/// The user who may do everything, named as those who come with the token of a service account are.
pub const REGISTRY_USER: &str = "ignored";
/// The user's password.
pub const REGISTRY_PASSWORD: &str = "velero-box-token";
/// The same in the form the registry keeps: bcrypt.
pub(crate) const PASSWORD_FILE: &str = "ignored:$2b$05$velerorustvelerorustvePXGIU7w5v2ihHkjXrJT6kpd0xADS6jC\n";
/// What the registry is called where tokens are made.
const SERVICE: &str = "velero-box-registry";

const CERTIFICATE: &str = r#"
set -e
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -days 3650 -subj /CN=velero-box-registries -out ca.crt
openssl req -new -newkey rsa:2048 -nodes -keyout server.key -subj /CN=registry -out server.csr
printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n' > names.conf
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile names.conf -out server.crt
"#;

/// Whom a registry serves.
#[derive(Clone, Copy, Default)]
pub enum Guard<'a> {
    /// Everybody.
    #[default]
    Open,
    /// [`REGISTRY_USER`] with the password in every request.
    Password,
    /// Those who bring a token of that realm.
    Token(&'a TokenRealm),
}

/// A running registry.
pub struct ContainerRegistry {
    folder: TempDir,
    port: u16,
    process: Option<Child>,
}

/// A request as the registry logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The answer's status.
    pub status: u16,
}

impl ContainerRegistry {
    /// Starts a registry that speaks plain HTTP and serves everybody.
    pub fn start() -> Result<Self> {
        Self::start_with(Guard::Open, false)
    }

    /// Starts a registry; with `tls` it has a certificate of [`Self::certificate_authority`].
    pub fn start_with(guard: Guard<'_>, tls: bool) -> Result<Self> {
        install::registry_packages()?;
        let folder = tempfile::Builder::new().prefix("velero-registry-").tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if tls {
            let mut shell = Command::new("sh");
            shell.args(["-c", CERTIFICATE, "sh"]).arg(folder.path());
            install::run_logged(&mut shell, "registry-certificate")?;
        }
        let configuration = configuration(&format!("127.0.0.1:{port}"), folder.path(), guard, tls);
        fs::write(folder.path().join("passwords"), PASSWORD_FILE)?;
        fs::write(folder.path().join("config.yml"), configuration.to_string())?;
        let mut registry = Self { folder, port, process: None };
        registry.resume()?;
        Ok(registry)
    }

    /// Starts the process again after [`Self::stop`], with all it held, at the same address.
    pub fn resume(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        // The registry ends with the thread that started it, even if a test is killed.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "docker-registry", "serve"])
            .arg(self.folder.path().join("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start docker-registry")?;
        let process = self.process.insert(process);
        wait_until("the registry", Duration::from_secs(20), || {
            if let Some(status) = process.try_wait()? {
                return Err(anyhow::anyhow!("docker-registry ended with {status}"));
            }
            TcpStream::connect(("127.0.0.1", self.port)).map(drop).context("no answer")
        })
        .with_context(|| fs::read_to_string(self.folder.path().join("log")).unwrap_or_default())
    }

    /// Ends the process; what it holds stays.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The authority behind the certificate, as PEM.
    pub fn certificate_authority(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("ca.crt"))?)
    }

    /// Where the content of a blob lies.
    pub fn blob_file(&self, digest: &str) -> Result<PathBuf> {
        let hex = digest.strip_prefix("sha256:").context("not a sha256 digest")?;
        ensure!(hex.len() == 64, "{digest} is no digest");
        Ok(self.folder.path().join("store/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data"))
    }

    /// The requests it answered, oldest first.
    pub fn requests(&self) -> Result<Vec<LoggedRequest>> {
        Ok(fs::read_to_string(self.log())?.lines().filter_map(request_of).collect())
    }

    /// How many requests of that method had a path with this in it and succeeded.
    pub fn count(&self, method: &str, part: &str) -> Result<usize> {
        let counts = |request: &&LoggedRequest| {
            request.method == method && request.path.contains(part) && (200..300).contains(&request.status)
        };
        Ok(self.requests()?.iter().filter(counts).count())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for ContainerRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The configuration of a registry that keeps everything in a folder. JSON is YAML.
pub(crate) fn configuration(address: &str, folder: &Path, guard: Guard<'_>, tls: bool) -> Value {
    let mut configuration = json!({
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": folder.join("store")}, "delete": {"enabled": true}},
        "http": {"addr": address},
        "validation": {"manifests": {"urls": {"allow": ["^https?://"]}}},
    });
    if tls {
        configuration["http"]["tls"] =
            json!({"certificate": folder.join("server.crt"), "key": folder.join("server.key")});
    }
    match guard {
        Guard::Open => {}
        Guard::Password => {
            configuration["auth"] = json!({"htpasswd": {"realm": "box", "path": folder.join("passwords")}});
        }
        Guard::Token(realm) => configuration["auth"] = realm.configuration(),
    }
    configuration
}

/// A line of the access log: `address - - [time] "METHOD PATH HTTP/1.1" STATUS BYTES ...`.
fn request_of(line: &str) -> Option<LoggedRequest> {
    let mut quoted = line.split('"');
    let (request, answer) = (quoted.nth(1)?, quoted.next()?);
    let mut words = request.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let status = answer.split_whitespace().next()?.parse().ok()?;
    Some(LoggedRequest { method, path, status })
}

/// Runs `skopeo`, the reference for everything about images, and gives what it printed.
pub fn skopeo<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Vec<u8>> {
    install::registry_packages()?;
    let output = Command::new("skopeo").arg("--insecure-policy").args(arguments).output().context("no skopeo")?;
    ensure!(output.status.success(), "skopeo: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_access_log_is_understood() {
        let line = r#"127.0.0.1 - - [15/Nov/2026:19:00:00 +0000] "HEAD /v2/a/blobs/x HTTP/1.1" 404 157 "" "velero""#;
        let expected = LoggedRequest { method: "HEAD".into(), path: "/v2/a/blobs/x".into(), status: 404 };
        assert_eq!(request_of(line), Some(expected));
        assert_eq!(request_of("time=now level=error msg=\"something else\""), None);
    }
}
