//! The key of a storage account, looked up by who may: what Velero's plugin does where no key is given.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use object_store::ClientOptions;
use object_store::client::{HttpRequest, HttpRequestBody};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::PROVIDER;
use super::builder::Cloud;
use super::credential::Settings;
use crate::location::invalid;
use crate::providers::{client_options, plain_request};
use crate::{Result, StoreConfig};

/// How long a key is used before it is looked up again.
const KEPT: Duration = Duration::from_secs(300);
/// Where machines of Azure ask who they are.
const METADATA: &str = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01";
/// The version of the interface that is spoken.
const API_VERSION: &str = "2023-01-01";
/// A flaw of both words: where the lookup goes wrong.
const FIELD: &str = "storageAccount";

/// Where the account is, and at which address it is asked for.
struct Lookup<'a> {
    config: &'a StoreConfig,
    settings: &'a Settings,
    authority: &'a str,
    manager: String,
}

/// The key of the location's account; it is looked up at most every few minutes.
pub(super) async fn account_key(config: &StoreConfig, settings: &Settings, cloud: &Cloud) -> Result<String> {
    static KEYS: OnceLock<Mutex<HashMap<String, (String, Instant)>>> = OnceLock::new();
    let keys = || KEYS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let account = resource(config, settings)?;
    let authority = config.get("activeDirectoryAuthorityURI").unwrap_or(cloud.authority);
    let manager = settings.value("AZURE_RESOURCE_MANAGER_ENDPOINT").unwrap_or_else(|| cloud.manager.to_owned());
    let who = settings.value("AZURE_CLIENT_ID").unwrap_or_default();
    let name = format!("{manager}{account} {who}");
    if let Some((key, since)) = keys().get(&name)
        && since.elapsed() < KEPT
    {
        return Ok(key.clone());
    }
    let lookup = Lookup { config, settings, authority, manager };
    let key = lookup.key(&account).await?;
    keys().insert(name, (key.clone(), Instant::now()));
    Ok(key)
}

/// The path of the account below the resource manager.
fn resource(config: &StoreConfig, settings: &Settings) -> Result<String> {
    let missing = |field: &str| {
        let problem = "it is required to look the key of the storage account up; or set storageAccountKeyEnvVar to the \
                       variable that holds the key, or useAAD to true";
        invalid(PROVIDER, field, problem)
    };
    let group = config.get("resourceGroup").map(str::to_owned).or_else(|| settings.value("AZURE_RESOURCE_GROUP"));
    let group = group.ok_or_else(|| missing("resourceGroup"))?;
    let account = config.get("storageAccount").ok_or_else(|| missing("storageAccount"))?;
    let subscription = config.get("subscriptionId").map(str::to_owned);
    let subscription = subscription.or_else(|| settings.value("AZURE_SUBSCRIPTION_ID"));
    let subscription = subscription.ok_or_else(|| missing("subscriptionId"))?;
    Ok(format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Storage/storageAccounts/{}",
        escaped(&subscription),
        escaped(&group),
        escaped(account)
    ))
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().replace("%2D", "-").replace("%5F", "_")
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    value: String,
    #[serde(default)]
    permissions: String,
}

impl Lookup<'_> {
    async fn key(&self, account: &str) -> Result<String> {
        let token = self.token().await?;
        let address = format!("{}{account}/listKeys?api-version={API_VERSION}", self.manager.trim_end_matches('/'));
        let request = http::Request::post(&address)
            .header("authorization", format!("Bearer {token}"))
            .header("content-length", "0")
            .body(HttpRequestBody::empty());
        let text = self.send("the keys of the storage account", request).await?;
        let found: Keys =
            serde_json::from_str(&text).map_err(|_| failed("the keys of the storage account", "no keys"))?;
        // A key that may only read cannot keep backups.
        let full = found.keys.into_iter().find(|key| !key.permissions.eq_ignore_ascii_case("read"));
        full.map(|key| key.value)
            .ok_or_else(|| failed("the keys of the storage account", "no key with all permissions"))
    }

    /// A token for the resource manager: by a secret, by workload identity, or by the machine.
    async fn token(&self) -> Result<String> {
        let value = |name: &str| self.settings.value(name);
        let scope = format!("{}/.default", self.manager.trim_end_matches('/'));
        let (tenant, client) = (value("AZURE_TENANT_ID"), value("AZURE_CLIENT_ID"));
        let proof = match (self.settings.get("AZURE_CLIENT_SECRET"), value("AZURE_FEDERATED_TOKEN_FILE")) {
            (Some(secret), _) => Some(format!("client_secret={}", strictly(secret))),
            (None, Some(file)) => {
                let token = tokio::fs::read_to_string(&file)
                    .await
                    .map_err(|error| invalid(PROVIDER, "AZURE_FEDERATED_TOKEN_FILE", format!("{file}: {error}")))?;
                const KIND: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                let (kind, token) = (strictly(KIND), strictly(token.trim()));
                Some(format!("client_assertion_type={kind}&client_assertion={token}"))
            }
            (None, None) => None,
        };
        let request = match (proof, tenant, client) {
            (Some(proof), Some(tenant), Some(client)) => {
                let address = format!("{}/{tenant}/oauth2/v2.0/token", self.authority.trim_end_matches('/'));
                let (client, scope) = (strictly(&client), strictly(&scope));
                let form = format!("grant_type=client_credentials&client_id={client}&scope={scope}&{proof}");
                http::Request::post(address)
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(HttpRequestBody::from(form))
            }
            (Some(_), _, _) => {
                return Err(invalid(
                    PROVIDER,
                    "AZURE_TENANT_ID",
                    "it and AZURE_CLIENT_ID are required beside the secret or token",
                ));
            }
            (None, _, client) => {
                let who = client.map(|client| format!("&client_id={}", strictly(&client))).unwrap_or_default();
                let manager = strictly(&format!("{}/", self.manager.trim_end_matches('/')));
                http::Request::get(format!("{METADATA}&resource={manager}{who}"))
                    .header("metadata", "true")
                    .body(HttpRequestBody::empty())
            }
        };
        let text = self.send("a token for Azure Resource Manager", request).await?;
        let token: Token = serde_json::from_str(&text)
            .map_err(|_| failed("a token for Azure Resource Manager", "the answer holds none"))?;
        Ok(token.access_token)
    }

    async fn send(&self, what: &str, request: http::Result<HttpRequest>) -> Result<String> {
        let request = request.map_err(|error| failed(what, &error.to_string()))?;
        let plain = request.uri().scheme_str() == Some("http");
        let options: ClientOptions = client_options(PROVIDER, self.config)?.with_allow_http(plain);
        match plain_request::send(&options, self.config.recorder.as_ref(), request).await {
            Ok((200, text)) => Ok(text),
            Ok((status, text)) => {
                let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect();
                Err(failed(what, &format!("{status} {words}")))
            }
            Err(error) => Err(failed(what, &error.to_string())),
        }
    }
}

fn strictly(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn failed(what: &str, problem: &str) -> crate::Error {
    let problem = format!(
        "{what} could not be had: {problem}; the identity needs the right Microsoft.Storage/storageAccounts/listKeys/action, \
         or set storageAccountKeyEnvVar or useAAD"
    );
    invalid(PROVIDER, FIELD, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_found_by_its_group_and_subscription() {
        let config = StoreConfig::new("azure", "c").with("storageAccount", "a").with("resourceGroup", "my group");
        let settings = Settings::parse("AZURE_SUBSCRIPTION_ID=1-2\n");
        let path = resource(&config, &settings).unwrap();
        assert_eq!(path, "/subscriptions/1-2/resourceGroups/my%20group/providers/Microsoft.Storage/storageAccounts/a");
        let other = config.with("subscriptionId", "3");
        let elsewhere = Settings::parse("AZURE_SUBSCRIPTION_ID=1-2\nAZURE_RESOURCE_GROUP=of-the-file\n");
        assert!(resource(&other, &elsewhere).unwrap().contains("/resourceGroups/my%20group/"), "its own goes first");
        let bare = StoreConfig::new("azure", "c").with("storageAccount", "a");
        assert!(resource(&bare, &elsewhere).unwrap().contains("/resourceGroups/of-the-file/"));
        assert!(resource(&other, &settings).unwrap().starts_with("/subscriptions/3/"));
        let error = resource(&StoreConfig::new("azure", "c").with("storageAccount", "a"), &settings).unwrap_err();
        assert!(error.to_string().contains("resourceGroup") && error.to_string().contains("useAAD"), "{error}");
    }
}
