//! Azurite: Microsoft's own Azure Blob server for tests, in the store's machine.

use anyhow::{Result, ensure};

use super::{Door, Part, STORE_ADDRESS, StorePart};
use crate::machine::Machine;
use crate::tool::Tool;

/// The storage account that is there from the start.
pub const AZURE_ACCOUNT: &str = "velerobox";
/// The account's key as users write it, in base64.
pub const AZURE_KEY: &str = "dmVsZXJvLWJveC1zZWNyZXQ=";
/// The container that is there from the start.
pub const AZURE_CONTAINER: &str = "velero";
/// The key in plain text, to sign with.
const SIGNING_KEY: &str = "velero-box-secret";
const PORT: u16 = 28334;

/// Makes a container: a request signed with the account's key.
const MAKE_CONTAINER: &str = r#"
set -e
account=$1 container=$2 key=$3 address=$4
date=$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S GMT')
version=2021-12-02
signature=$(printf 'PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:%s\n/%s/%s/%s\nrestype:container' \
  "$date" "$version" "$account" "$account" "$container" | openssl dgst -sha256 -hmac "$key" -binary | openssl base64)
curl --silent --show-error --max-time 5 --request PUT --output /dev/null --write-out '%{http_code}' \
  --header "x-ms-date: $date" --header "x-ms-version: $version" --header 'Content-Length: 0' \
  --header "Authorization: SharedKey $account:$signature" "$address/$account/$container?restype=container"
"#;

/// The Azure Blob server.
pub struct Azurite;

impl Azurite {
    /// The account's address on this host's loopback, for `storageAccountURI`.
    pub fn url() -> String {
        format!("http://127.0.0.1:{PORT}/{AZURE_ACCOUNT}")
    }
}

impl Part for Azurite {
    fn name(&self) -> &'static str {
        "azurite"
    }

    fn install(&self) -> Result<()> {
        Tool::Azurite.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        let mut shell = machine.command("sh");
        shell.env("AZURITE_ACCOUNTS", format!("{AZURE_ACCOUNT}:{AZURE_KEY}"));
        let arguments = [
            Tool::Azurite.path()?.display().to_string(),
            "--blobHost=0.0.0.0".into(),
            format!("--blobPort={PORT}"),
            format!("--location={}", machine.folder("azurite")?.display()),
            "--silent".into(),
            "--disableTelemetry".into(),
            "--skipApiVersionCheck".into(),
        ];
        machine.start_command(self.name(), shell, "node", arguments)
    }

    /// Making the container is the check: it needs the account and its key.
    fn check(&self, machine: &Machine) -> Result<()> {
        let address = format!("http://{STORE_ADDRESS}:{PORT}");
        let arguments = ["-c", MAKE_CONTAINER, "sh", AZURE_ACCOUNT, AZURE_CONTAINER, SIGNING_KEY, &address];
        let status = machine.run("sh", arguments)?;
        ensure!(status == "201" || status == "409", "making the container {AZURE_CONTAINER} answers {status}");
        Ok(())
    }
}

impl StorePart for Azurite {
    fn door(&self) -> Door {
        Door::new("azurite-door", PORT, format!("{STORE_ADDRESS}:{PORT}"))
    }
}
