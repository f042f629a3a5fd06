//! The credentials file of Azure, and who we are to the store.

use std::collections::BTreeMap;

use object_store::azure::MicrosoftAzureBuilder;

use super::builder::Cloud;
use super::{PROVIDER, management};
use crate::location::invalid;
use crate::{Result, StoreConfig};

/// The variables of a credentials file.
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Reads the location's credentials; without any, all variables are unset.
    pub(super) async fn of(config: &StoreConfig) -> Result<Self> {
        let text = config.credentials_text(PROVIDER, "AZURE_CREDENTIALS_FILE").await?;
        Ok(Self::parse(&text.unwrap_or_default()))
    }

    /// The value of a variable; an empty one counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable of the file, else of the environment.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let from_environment = || std::env::var(name).ok().filter(|value| !value.is_empty());
        self.get(name).map(str::to_owned).or_else(from_environment)
    }

    /// Reads lines of the form `NAME=value` or `NAME: value`, with or without quotes and `export`.
    pub(super) fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let line = line.strip_prefix("export ").unwrap_or(line);
            if let Some((name, value)) = line.split_once(['=', ':']) {
                values.insert(name.trim().to_owned(), unquoted(value.trim()).to_owned());
            }
        }
        Self(values)
    }
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value.split(" #").next().map_or(value, str::trim_end)
}

/// Adds the account key or the identity the location asks for.
pub(super) async fn configure(
    builder: MicrosoftAzureBuilder,
    config: &StoreConfig,
    settings: &Settings,
    cloud: &Cloud,
) -> Result<MicrosoftAzureBuilder> {
    if let Some(name) = config.get("storageAccountKeyEnvVar") {
        let missing =
            || invalid(PROVIDER, "storageAccountKeyEnvVar", format!("the credentials have no value for {name}"));
        return Ok(builder.with_access_key(settings.get(name).ok_or_else(missing)?));
    }
    refuse_certificates(settings)?;
    warn_of_other_tenants(settings);
    if !config.get_bool(PROVIDER, "useAAD")? {
        return Ok(builder.with_access_key(management::account_key(config, settings, cloud).await?));
    }
    Ok(with_identity(builder, settings))
}

fn refuse_certificates(settings: &Settings) -> Result<()> {
    for name in ["AZURE_CLIENT_CERTIFICATE", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME"] {
        if settings.get(name).is_some() && settings.get("AZURE_CLIENT_SECRET").is_none() {
            return Err(invalid(PROVIDER, name, "it is not supported; use AZURE_CLIENT_SECRET or workload identity"));
        }
    }
    Ok(())
}

/// A token is asked of one tenant; further ones are not tried, but not silently.
fn warn_of_other_tenants(settings: &Settings) {
    if let Some(tenants) = settings.get("AZURE_ADDITIONALLY_ALLOWED_TENANTS") {
        tracing::warn!(tenants, "AZURE_ADDITIONALLY_ALLOWED_TENANTS is ignored: tokens are those of AZURE_TENANT_ID");
    }
}

/// A client secret, else workload identity, else the identity of the machine.
fn with_identity(builder: MicrosoftAzureBuilder, settings: &Settings) -> MicrosoftAzureBuilder {
    let value = |name: &str| settings.value(name);
    let mut builder = builder;
    if let Some(client) = value("AZURE_CLIENT_ID") {
        builder = builder.with_client_id(client);
    }
    if let Some(tenant) = value("AZURE_TENANT_ID") {
        builder = builder.with_tenant_id(tenant);
    }
    if let Some(secret) = settings.get("AZURE_CLIENT_SECRET") {
        builder.with_client_secret(secret)
    } else if let Some(file) = value("AZURE_FEDERATED_TOKEN_FILE") {
        builder.with_federated_token_file(file)
    } else {
        builder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_in_all_their_forms() {
        let settings = Settings::parse("# note\nexport A=1\nB = \"two words\"\nC='x=y'\nD=\nno variable\n");
        assert_eq!(settings.get("A"), Some("1"));
        assert_eq!(settings.get("B"), Some("two words"));
        assert_eq!(settings.get("C"), Some("x=y"));
        assert_eq!(settings.get("D"), None);
        let settings = Settings::parse("A: a==\nB=b+/= # note\nC='c # d'\n");
        assert_eq!(["A", "B", "C"].map(|name| settings.get(name)), [Some("a=="), Some("b+/="), Some("c # d")]);
    }

    #[test]
    fn a_certificate_is_refused_by_name() {
        let settings = Settings::parse("AZURE_CLIENT_CERTIFICATE_PATH=/cert.pem");
        let error = refuse_certificates(&settings).unwrap_err();
        assert!(error.to_string().contains("AZURE_CLIENT_CERTIFICATE_PATH"));
    }
}
