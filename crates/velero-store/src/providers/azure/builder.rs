//! From a location's config to a Blob Storage client.

use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};

use super::credential::Settings;
use super::{PROVIDER, credential};
use crate::location::invalid;
use crate::providers::{client_options, rejected};
use crate::{Result, StoreConfig};

const VALID_KEYS: [&str; 9] = [
    "resourceGroup",
    "storageAccount",
    "storageAccountKeyEnvVar",
    "subscriptionId",
    "blockSizeInBytes",
    "storageAccountURI",
    "useAAD",
    "activeDirectoryAuthorityURI",
    "credentialsFile",
];

pub(super) async fn build(config: &StoreConfig) -> Result<MicrosoftAzure> {
    config.check_keys(&VALID_KEYS)?;
    let account = config.get("storageAccount").ok_or_else(|| invalid(PROVIDER, "storageAccount", "it is required"))?;
    let settings = Settings::of(config).await?;
    let cloud = Cloud::named(settings.get("AZURE_CLOUD_NAME").unwrap_or_default())?;
    let endpoint = match config.get("storageAccountURI") {
        Some(uri) => uri.trim_end_matches('/').to_owned(),
        None => format!("https://{account}.{}", cloud.blob_domain),
    };
    let authority = config.get("activeDirectoryAuthorityURI").unwrap_or(cloud.authority);
    let plain = endpoint.starts_with("http://");
    let builder = MicrosoftAzureBuilder::new()
        .with_account(account)
        .with_container_name(config.bucket_name(PROVIDER)?)
        .with_client_options(client_options(PROVIDER, config)?)
        .with_retry(config.transfer.retry_config())
        .with_endpoint(endpoint)
        .with_authority_host(authority)
        .with_allow_http(plain);
    let builder = match &config.recorder {
        Some(recorder) => builder.with_http_connector(recorder.clone()),
        None => builder,
    };
    credential::configure(builder, config, &settings, &cloud).await?.build().map_err(rejected(PROVIDER))
}

/// One of Azure's separate clouds.
pub(super) struct Cloud {
    blob_domain: &'static str,
    pub(super) authority: &'static str,
    /// The address of Azure Resource Manager.
    pub(super) manager: &'static str,
}

impl Cloud {
    fn named(name: &str) -> Result<Self> {
        let (blob_domain, authority, manager) = match name.to_ascii_uppercase().as_str() {
            "" | "AZURECLOUD" | "AZUREPUBLICCLOUD" => {
                ("blob.core.windows.net", "https://login.microsoftonline.com", "https://management.azure.com")
            }
            "AZURECHINACLOUD" => {
                ("blob.core.chinacloudapi.cn", "https://login.chinacloudapi.cn", "https://management.chinacloudapi.cn")
            }
            "AZUREUSGOVERNMENT" | "AZUREUSGOVERNMENTCLOUD" => (
                "blob.core.usgovcloudapi.net",
                "https://login.microsoftonline.us",
                "https://management.usgovcloudapi.net",
            ),
            _ => {
                return Err(invalid(PROVIDER, "AZURE_CLOUD_NAME", format!("unknown cloud: {name}")));
            }
        };
        Ok(Self { blob_domain, authority, manager })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    fn config(credentials: &str) -> StoreConfig {
        let mut config = StoreConfig::new("azure", "velero").with("storageAccount", "account");
        config.credentials = Some(Credentials::Content(credentials.to_owned()));
        config
    }

    #[tokio::test]
    async fn an_account_key_signs_urls_for_the_right_cloud() {
        let store = config("AZURE_CLOUD_NAME=AzureChinaCloud\nKEY=c2VjcmV0\n").with("storageAccountKeyEnvVar", "KEY");
        let store = store.open().await.unwrap();
        let url = store.signed_url("backups/a", std::time::Duration::from_secs(60)).await.unwrap();
        assert!(url.starts_with("https://account.blob.core.chinacloudapi.cn/velero/backups/a?"), "{url}");
    }

    #[tokio::test]
    async fn what_is_missing_or_unknown_is_named() {
        for (config, part) in [
            (config("AZURE_CLOUD_NAME=Moon").with("useAAD", "true"), "unknown cloud: Moon"),
            (config("").with("storageAccountKeyEnvVar", "KEY"), "KEY"),
            (config(""), "useAAD"),
            (config("").with("useAAD", "true").with("blockSizeInBytes", "many"), "blockSizeInBytes"),
            (StoreConfig::new("azure", "velero"), "storageAccount"),
        ] {
            let Err(error) = config.open().await else { panic!("{part} must be refused") };
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
