//! A token service for registries, as `/openshift/token` and the large public registries have one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{REGISTRY_PASSWORD, REGISTRY_USER, SERVICE};
use crate::install::run_logged;

const ISSUER: &str = "velero-box";

/// A running token service: [`REGISTRY_USER`] gets what is asked for, everybody else may pull.
pub struct TokenRealm {
    url: String,
    folder: TempDir,
    served: Arc<AtomicUsize>,
}

/// What it takes to make a token.
struct Signer {
    key: PathBuf,
    certificate: String,
    lifetime: u64,
    served: Arc<AtomicUsize>,
}

impl TokenRealm {
    /// Starts a service whose tokens live that many seconds. It ends with the runtime it is started in.
    pub async fn start(lifetime: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("velero-realm-").tempdir()?;
        let (key, certificate) = (folder.path().join("realm.key"), folder.path().join("realm.crt"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=realm"]);
        run_logged(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate), "registry-realm")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/token", listener.local_addr()?);
        let served = Arc::new(AtomicUsize::new(0));
        let certificate = pem_content(&certificate)?;
        let signer = Arc::new(Signer { key, certificate, lifetime, served: served.clone() });
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let signer = signer.clone();
                tokio::spawn(async move { signer.serve(client).await });
            }
        });
        Ok(Self { url, folder, served })
    }

    /// How many tokens were given out.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// The registry's side of it.
    pub(super) fn configuration(&self) -> Value {
        let certificate = self.folder.path().join("realm.crt");
        json!({"token": {"realm": self.url, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": certificate}})
    }
}

impl Signer {
    async fn serve(&self, client: TcpStream) -> Result<()> {
        let mut client = BufReader::new(client);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && client.read_line(&mut head).await? > 0 {}
        let (status, body) = match self.answer(&head)? {
            Some(answer) => ("200 OK", answer),
            None => ("401 Unauthorized", json!({"errors": [{"code": "UNAUTHORIZED", "message": "who are you"}]})),
        };
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        client.write_all(answer.as_bytes()).await?;
        Ok(client.shutdown().await?)
    }

    /// A token for what the request asks for; `None` where its password is wrong.
    fn answer(&self, head: &str) -> Result<Option<Value>> {
        let credentials = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
        let expected = STANDARD.encode(format!("{REGISTRY_USER}:{REGISTRY_PASSWORD}"));
        if credentials.is_some_and(|line| !line.ends_with(&expected)) {
            return Ok(None);
        }
        let query = head.split_whitespace().nth(1).and_then(|path| path.split_once('?')).map_or("", |(_, query)| query);
        let scopes = query.split('&').filter_map(|pair| pair.strip_prefix("scope="));
        let access: Vec<Value> = scopes.filter_map(|scope| access(&decode(scope), credentials.is_some())).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": ISSUER, "sub": REGISTRY_USER, "aud": SERVICE, "jti": "1",
            "iat": now, "nbf": now - 5, "exp": now + self.lifetime, "access": access,
        });
        self.served.fetch_add(1, Ordering::SeqCst);
        Ok(Some(json!({"token": self.sign(&claims)?, "expires_in": self.lifetime})))
    }

    fn sign(&self, claims: &Value) -> Result<String> {
        let header = json!({"typ": "JWT", "alg": "RS256", "x5c": [self.certificate]});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(claims));
        let mut openssl = Command::new("openssl")
            .args(["dgst", "-sha256", "-sign"])
            .arg(&self.key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        openssl.stdin.take().context("openssl has no input")?.write_all(text.as_bytes())?;
        let output = openssl.wait_with_output()?;
        ensure!(output.status.success(), "openssl could not sign the token");
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(output.stdout)))
    }
}

/// What `repository:name:actions` allows; those without credentials may only pull.
fn access(scope: &str, known: bool) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let actions: Vec<&str> = actions.split(',').filter(|action| known || *action == "pull").collect();
    Some(json!({"type": kind, "name": name, "actions": actions}))
}

/// Undoes the escapes a scope may have in a query.
fn decode(text: &str) -> String {
    text.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",")
}

/// What stands between the lines that begin and end a PEM file.
fn pem_content(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)?;
    Ok(text.lines().filter(|line| !line.starts_with("-----")).collect())
}
