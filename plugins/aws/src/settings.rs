//! The config of a VolumeSnapshotLocation: the keys of Velero's AWS plugin, and one of our own for the address.

use std::collections::BTreeMap;

use velero_plugin::{Error, Result};

const REGION: &str = "region";
const ADDRESS: &str = "ec2Url";
const KMS_KEY: &str = "ebsKmsKeyId";

/// All keys. Credentials are resolved from `profile` and `credentialsFile` as those of backup locations are, and
/// `enableSharedConfig` is always on.
const KEYS: [&str; 6] = [REGION, "profile", "credentialsFile", "enableSharedConfig", KMS_KEY, ADDRESS];

/// What an AWS client reads from the environment when nothing names an address.
const ADDRESS_VARIABLES: [&str; 2] = ["AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL"];

/// A location, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The region of the volumes and snapshots.
    pub(crate) region: String,
    /// Where EC2 is asked.
    pub(crate) address: String,
    /// The key that encrypts volumes made of snapshots; the snapshot's own when `None`.
    pub(crate) kms_key: Option<String>,
}

impl Settings {
    /// Reads the config of a location.
    pub(crate) fn read(config: &BTreeMap<String, String>, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let wrong: Vec<_> = config.keys().map(String::as_str).filter(|key| !KEYS.contains(key)).collect();
        if !wrong.is_empty() {
            let (wrong, keys) = (wrong.join(" "), KEYS.join(" "));
            return Err(Error::Failed(format!("config has invalid keys [{wrong}]; valid keys are [{keys}]")));
        }
        let value = |key: &str| config.get(key).filter(|value| !value.is_empty()).cloned();
        let missing = || {
            let remedy = "name the region of the volumes in spec.config of the volume snapshot location";
            Error::Failed(format!("missing {REGION} in aws configuration; {remedy}"))
        };
        let region = value(REGION).ok_or_else(missing)?;
        let named = value(ADDRESS).or_else(|| ADDRESS_VARIABLES.into_iter().find_map(variable));
        let address = match named {
            Some(address) => checked(&address)?,
            None => public_address(&region),
        };
        Ok(Self { region, address, kms_key: value(KMS_KEY) })
    }
}

fn checked(address: &str) -> Result<String> {
    let address = address.trim_end_matches('/');
    let host = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or_default();
    let is_valid = !host.is_empty() && !host.contains('/') && address.parse::<http::Uri>().is_ok();
    if is_valid {
        return Ok(format!("{address}/"));
    }
    Err(Error::Failed(format!("config {ADDRESS}: {address:?} is no address; write it as https://host:port")))
}

fn public_address(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://ec2.{region}.{domain}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Settings> {
        let config = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let variable =
            |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned());
        Settings::read(&config, variable)
    }

    #[test]
    fn the_address_comes_from_the_config_or_the_environment_or_the_region() {
        let eu = ("region", "eu-west-1");
        let both = [("AWS_ENDPOINT_URL", "http://all:1"), ("AWS_ENDPOINT_URL_EC2", "http://ec2:2/")];
        for (entries, variables, expected) in [
            (&[eu][..], &[][..], "https://ec2.eu-west-1.amazonaws.com/"),
            (&[("region", "cn-north-1")], &[], "https://ec2.cn-north-1.amazonaws.com.cn/"),
            (&[eu], &both, "http://ec2:2/"),
            (&[eu], &both[..1], "http://all:1/"),
            (&[eu, ("ec2Url", "https://own")], &both, "https://own/"),
            (&[eu, ("ec2Url", "")], &[], "https://ec2.eu-west-1.amazonaws.com/"),
        ] {
            assert_eq!(read(entries, variables).unwrap().address, expected);
        }
    }

    #[test]
    fn every_key_of_velero_s_plugin_is_taken() {
        let entries =
            ["region", "profile", "credentialsFile", "enableSharedConfig", "ebsKmsKeyId"].map(|key| (key, "x"));
        assert_eq!(read(&entries, &[]).unwrap().kms_key.as_deref(), Some("x"));
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_remedy() {
        for (entries, problem) in [
            (&[][..], "missing region"),
            (&[("region", "")], "missing region"),
            (&[("region", "r"), ("regoin", "r")], "invalid keys [regoin]; valid keys are [region profile "),
            (&[("region", "r"), ("ec2Url", "ec2.example.com")], "is no address"),
            (&[("region", "r"), ("ec2Url", "http://")], "is no address"),
            (&[("region", "r"), ("ec2Url", "http://host/path")], "is no address"),
        ] {
            let text = read(entries, &[]).unwrap_err().to_string();
            assert!(text.contains(problem), "{text}");
        }
    }
}
