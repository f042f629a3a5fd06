//! Where requests go: the address of a bucket on S3 or on a store that speaks its protocol.

use object_store::signer::Url;

use super::PROVIDER;
use crate::Result;
use crate::location::invalid;

/// The address of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The URL, with the bucket in the host name when `virtual_hosted`; `None` for S3 itself.
    pub(super) url: Option<String>,
    /// Whether the bucket is part of the host name instead of the path.
    pub(super) virtual_hosted: bool,
    /// Whether the connection is not encrypted.
    pub(super) plain: bool,
}

impl Endpoint {
    /// The address of `bucket` at `url`, or at S3 itself.
    pub(super) fn new(field: &str, url: Option<&str>, bucket: &str, force_path_style: bool) -> Result<Self> {
        let can_be_host_name = is_host_label(bucket);
        let Some(text) = url else {
            return Ok(Self { url: None, virtual_hosted: !force_path_style && can_be_host_name, plain: false });
        };
        let wrong = || invalid(PROVIDER, field, format!("{text:?} is not a URL that starts with http:// or https://"));
        let mut url = Url::parse(text).map_err(|_| wrong())?;
        let plain = match url.scheme() {
            "http" => true,
            "https" => false,
            _ => return Err(wrong()),
        };
        // An address has no room for a bucket in front of it.
        let virtual_hosted = !force_path_style && can_be_host_name && url.domain().is_some();
        if virtual_hosted {
            let host = format!("{bucket}.{}", url.domain().unwrap_or_default());
            url.set_host(Some(&host)).map_err(|_| wrong())?;
        }
        let url = Some(url.as_str().trim_end_matches('/').to_owned());
        Ok(Self { url, virtual_hosted, plain })
    }
}

/// What the bucket of a location names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A bucket.
    Bucket(String),
    /// An access point: requests go to a host of its own, in its region.
    AccessPoint {
        /// The URL.
        url: String,
        /// The region.
        region: String,
    },
}

impl Target {
    /// What a name or an ARN stands for.
    pub(super) fn of(name: &str) -> Result<Self> {
        let Some(arn) = name.strip_prefix("arn:") else { return Ok(Self::Bucket(name.to_owned())) };
        let refused = |problem: &str| Err(invalid(PROVIDER, "bucket", format!("{name:?}: {problem}")));
        let parts: Vec<&str> = arn.splitn(5, ':').collect();
        let [partition, service, region, account, resource] = parts[..] else {
            return refused("it is not a whole ARN; write the name of the bucket");
        };
        match (service, resource.split(['/', ':']).collect::<Vec<_>>().as_slice()) {
            ("s3", [bucket]) if region.is_empty() && !bucket.is_empty() => Ok(Self::Bucket((*bucket).to_owned())),
            ("s3", ["accesspoint", _]) if region.is_empty() => refused(
                "access points of several regions need signatures that are not supported; use one of one region",
            ),
            ("s3", ["accesspoint", point]) if !point.is_empty() && !account.is_empty() => {
                let domain = if partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
                let url = format!("https://{point}-{account}.s3-accesspoint.{region}.{domain}");
                Ok(Self::AccessPoint { url, region: region.to_owned() })
            }
            _ => refused("only buckets and access points of S3 are supported; Outposts and Object Lambda are not"),
        }
    }
}

/// Names with dots are left out: certificates for `*.s3.…` do not cover them.
fn is_host_label(bucket: &str) -> bool {
    let allowed = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    (3..=63).contains(&bucket.len())
        && bucket.chars().all(allowed)
        && !bucket.starts_with('-')
        && !bucket.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_goes_into_the_host_name_or_the_path() {
        for (url, bucket, force, expected) in [
            (
                Some("http://minio.velero.svc:9000/"),
                "velero",
                true,
                (Some("http://minio.velero.svc:9000"), false, true),
            ),
            (Some("https://s3.example.com"), "velero", false, (Some("https://velero.s3.example.com"), true, false)),
            (Some("http://127.0.0.1:8333"), "velero", false, (Some("http://127.0.0.1:8333"), false, true)),
            (Some("https://s3.example.com"), "ve.le.ro", false, (Some("https://s3.example.com"), false, false)),
            (None, "velero", false, (None, true, false)),
            (None, "velero", true, (None, false, false)),
            (None, "Upper_Case", false, (None, false, false)),
        ] {
            let found = Endpoint::new("s3Url", url, bucket, force).unwrap();
            assert_eq!((found.url.as_deref(), found.virtual_hosted, found.plain), expected, "{url:?} {bucket}");
        }
    }

    #[test]
    fn an_arn_names_a_bucket_or_an_access_point() {
        let point = |url: &str, region: &str| Target::AccessPoint { url: url.to_owned(), region: region.to_owned() };
        for (name, expected) in [
            ("velero", Target::Bucket("velero".to_owned())),
            ("arn:aws:s3:::velero", Target::Bucket("velero".to_owned())),
            (
                "arn:aws:s3:eu-west-1:123456789012:accesspoint/backups",
                point("https://backups-123456789012.s3-accesspoint.eu-west-1.amazonaws.com", "eu-west-1"),
            ),
            (
                "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint:backups",
                point("https://backups-123456789012.s3-accesspoint.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ),
        ] {
            assert_eq!(Target::of(name).unwrap(), expected, "{name}");
        }
        for name in [
            "arn:aws:s3",
            "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
            "arn:aws:s3-outposts:us-west-2:123456789012:outpost/op-1/accesspoint/a",
            "arn:aws:s3-object-lambda:us-west-2:123456789012:accesspoint/a",
        ] {
            assert!(Target::of(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_not_a_web_address_is_refused() {
        for url in ["s3.example.com", "ftp://s3.example.com", "http://"] {
            assert!(Endpoint::new("s3Url", Some(url), "velero", true).is_err(), "{url}");
        }
    }
}
