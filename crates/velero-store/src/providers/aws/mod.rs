//! Amazon S3 and the stores that speak its protocol, with the config keys of Velero's AWS plugin.

mod builder;
mod credential;
mod encryption;
mod endpoint;
mod session;
mod subresource;

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::TagSet;
use object_store::aws::AwsCredentialProvider;
use object_store::signer::Signer;

pub(crate) use subresource::subresource;

use crate::bucket::{Backend, NoSigner};
use crate::location::invalid;
use crate::providers::{client_options, rejected};
use crate::{Result, StoreConfig};

const PROVIDER: &str = "aws";

/// Opens a bucket.
pub(crate) async fn open(config: &StoreConfig) -> Result<Backend> {
    let builder = builder::configure(config).await?;
    let store = Arc::new(
        builder::with_endpoint(builder.clone(), config, config.get("s3Url"))?.build().map_err(rejected(PROVIDER))?,
    );
    let signer: Result<Arc<dyn Signer>, NoSigner> = match config.get("publicUrl") {
        _ if encryption::is_by_customer(config) => Err(NoSigner::KeyOfCustomer),
        None => Ok(store.clone()),
        public => Ok(Arc::new(builder::with_endpoint(builder, config, public)?.build().map_err(rejected(PROVIDER))?)),
    };
    Ok(Backend { store: store.clone(), lister: Some(store), signer, tags: tags(config)? })
}

/// The account that the config of a location names with `profile` and `credentialsFile`, else that of the environment,
/// for services of AWS besides S3.
pub async fn credentials(config: &BTreeMap<String, String>, region: &str) -> Result<AwsCredentialProvider> {
    let config = StoreConfig { config: config.clone(), ..StoreConfig::new(PROVIDER, "") };
    let options = client_options(PROVIDER, &config)?;
    let builder = credential::Identity::of(&config).await?.builder(config.recorder.as_ref(), &options)?;
    // The client is never used, and cannot be built without a bucket.
    let client = builder.with_bucket_name("unused").with_region(region).build().map_err(rejected(PROVIDER))?;
    Ok(Arc::clone(client.credentials()))
}

/// The tags of every object, from `Key1=Value1&Key2=Value2`.
fn tags(config: &StoreConfig) -> Result<TagSet> {
    const MOST: usize = 10;
    let mut tags = TagSet::default();
    let Some(text) = config.get("tagging") else {
        return Ok(tags);
    };
    let pairs: Vec<_> = text.split('&').collect();
    if pairs.len() > MOST {
        return Err(invalid(PROVIDER, "tagging", format!("{} tags are given and S3 allows {MOST}", pairs.len())));
    }
    for pair in pairs {
        match pair.split_once('=') {
            Some((key, value)) if is_tag(key, value) => tags.push(key, value),
            _ => {
                return Err(invalid(
                    PROVIDER,
                    "tagging",
                    format!("{pair:?} is not a tag; write Key1=Value1&Key2=Value2"),
                ));
            }
        }
    }
    Ok(tags)
}

fn is_tag(key: &str, value: &str) -> bool {
    !key.is_empty() && key.chars().count() <= 128 && value.chars().count() <= 256 && !value.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_split_and_checked() {
        let config = |text: &str| StoreConfig::new("aws", "b").with("tagging", text);
        assert_eq!(tags(&config("a=1&b=2")).unwrap().encoded(), "a=1&b=2");
        assert!(tags(&config("")).unwrap().is_empty());
        for wrong in ["a", "a=1&b", "=1", "a=b=c", "a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11"] {
            assert!(tags(&config(wrong)).is_err(), "{wrong}");
        }
    }
}
