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
    fn what_is_not_a_web_address_is_refused() {
        for url in ["s3.example.com", "ftp://s3.example.com", "http://"] {
            assert!(Endpoint::new("s3Url", Some(url), "velero", true).is_err(), "{url}");
        }
    }
}
