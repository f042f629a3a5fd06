//! Manifests: what an image consists of. They are read, never written anew: their digest is their name.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::Deserialize;

use crate::{Digest, Problem};

const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The kinds of manifests we understand, as a request says it.
pub(crate) const ACCEPTED: [&str; 4] = [DOCKER_MANIFEST, DOCKER_LIST, OCI_MANIFEST, OCI_INDEX];

/// A manifest as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) digest: Digest,
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
    pub(crate) content: Content,
}

/// What a manifest refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// An image, or another thing that consists of blobs.
    Blobs(Vec<Blob>),
    /// A list of manifests, usually one a platform.
    Index(Vec<Child>),
}

/// Content of an image that is no manifest: its configuration or a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) digest: Digest,
    platform: Option<Platform>,
}

/// An operating system on a processor, written `os/architecture` or `os/architecture/variant`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// The operating system, such as `linux`.
    pub os: String,
    /// The processor, such as `amd64`.
    pub architecture: String,
    /// Its variant, such as `v8`; where none is asked for, any will do.
    #[serde(default)]
    pub variant: Option<String>,
}

impl FromStr for Platform {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        match text.split('/').map(str::to_owned).collect::<Vec<_>>().as_slice() {
            [os, architecture] => Ok(Self { os: os.clone(), architecture: architecture.clone(), variant: None }),
            [os, architecture, variant] => {
                Ok(Self { os: os.clone(), architecture: architecture.clone(), variant: Some(variant.clone()) })
            }
            _ => Err(Problem::InvalidSetting {
                what: format!("the platform {text:?}"),
                reason: "write it as os/architecture or os/architecture/variant".into(),
            }),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(formatter, "/{variant}"))
    }
}

impl Platform {
    fn is_served_by(&self, offered: &Self) -> bool {
        let variant = self.variant.is_none() || self.variant == offered.variant;
        self.os == offered.os && self.architecture == offered.architecture && variant
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u64>,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

impl Descriptor {
    /// Layers that must not be distributed stay where they are; registries do not have them.
    fn is_foreign(&self) -> bool {
        self.media_type.contains(".foreign.") || self.media_type.contains(".nondistributable.")
    }

    fn digest(&self) -> Result<Digest, Problem> {
        self.digest.parse::<Digest>().map_err(|error| unsupported(error.to_string()))
    }
}

impl Manifest {
    /// Reads a manifest; `media_type` is what the registry said it is.
    pub(crate) fn read(bytes: Bytes, media_type: Option<&str>) -> Result<Self, Problem> {
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|error| unsupported(format!("its manifest is not one of an image: {error}")))?;
        if document.schema_version == Some(1) {
            return Err(unsupported("its manifest has the old schema 1; push it again with a current tool".into()));
        }
        let content = document.content()?;
        let media_type = document.media_type.or_else(|| known(media_type)).unwrap_or_else(|| match content {
            Content::Blobs(_) => OCI_MANIFEST.to_owned(),
            Content::Index(_) => OCI_INDEX.to_owned(),
        });
        Ok(Self { digest: Digest::of(&bytes), media_type, bytes, content })
    }
}

impl Document {
    fn content(&self) -> Result<Content, Problem> {
        match (&self.manifests, &self.config, &self.layers) {
            (Some(manifests), None, None) => {
                let child =
                    |entry: &Descriptor| Ok(Child { digest: entry.digest()?, platform: entry.platform.clone() });
                Ok(Content::Index(manifests.iter().map(child).collect::<Result<_, _>>()?))
            }
            (None, Some(config), layers) => {
                let layers = layers.iter().flatten().filter(|layer| !layer.is_foreign());
                let blob = |entry: &Descriptor| Ok(Blob { digest: entry.digest()?, size: entry.size });
                Ok(Content::Blobs([config].into_iter().chain(layers).map(blob).collect::<Result<_, _>>()?))
            }
            // Two readers could take such a document for two different images.
            (Some(_), ..) => Err(unsupported("its manifest lists both manifests and layers".into())),
            (None, None, _) => Err(unsupported("its manifest has neither a config nor manifests".into())),
        }
    }
}

/// The entry for a platform.
pub(crate) fn choose<'a>(children: &'a [Child], wanted: &Platform) -> Result<&'a Child, Problem> {
    let offered = |child: &&Child| child.platform.as_ref().is_some_and(|platform| wanted.is_served_by(platform));
    children.iter().find(offered).ok_or_else(|| {
        let known: Vec<String> =
            children.iter().filter_map(|child| child.platform.as_ref().map(Platform::to_string)).collect();
        unsupported(format!("it is not made for {wanted}, only for {}", known.join(", ")))
    })
}

/// The media type in a header, where it names a kind of manifest.
fn known(header: Option<&str>) -> Option<String> {
    let media_type = header?.split(';').next()?.trim();
    ACCEPTED.contains(&media_type).then(|| media_type.to_owned())
}

fn unsupported(reason: String) -> Problem {
    Problem::Unsupported { reason }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn digest(number: u8) -> Digest {
        Digest::of(&[number])
    }

    fn descriptor(number: u8, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": digest(number).as_str(), "size": u64::from(number)})
    }

    fn read(document: &Value, media_type: Option<&str>) -> Result<Manifest, String> {
        Manifest::read(document.to_string().into(), media_type).map_err(|problem| problem.to_string())
    }

    #[test]
    fn an_image_is_its_config_and_the_layers_that_may_be_distributed() {
        let layers = [
            descriptor(1, "application/vnd.oci.image.layer.v1.tar+gzip"),
            descriptor(2, "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
            descriptor(3, "application/vnd.oci.image.layer.nondistributable.v1.tar"),
            descriptor(4, ""),
        ];
        let manifest =
            read(&json!({"schemaVersion": 2, "config": descriptor(9, "c"), "layers": layers}), None).unwrap();
        let blobs = [9, 1, 4].map(|number| Blob { digest: digest(number), size: number.into() });
        assert_eq!(manifest.content, Content::Blobs(blobs.to_vec()));
        assert_eq!(manifest.media_type, OCI_MANIFEST);
    }

    #[test]
    fn the_media_type_is_that_of_the_document_then_that_of_the_answer() {
        let image = json!({"config": descriptor(1, "")});
        let mut named = image.clone();
        named["mediaType"] = json!(DOCKER_MANIFEST);
        let index = json!({"manifests": []});
        for (document, header, expected) in [
            (&image, None, OCI_MANIFEST),
            (&image, Some("application/json"), OCI_MANIFEST),
            (&image, Some("application/vnd.docker.distribution.manifest.v2+json; charset=utf-8"), DOCKER_MANIFEST),
            (&named, Some(OCI_MANIFEST), DOCKER_MANIFEST),
            (&index, None, OCI_INDEX),
            (&index, Some(DOCKER_LIST), DOCKER_LIST),
        ] {
            assert_eq!(read(document, header).unwrap().media_type, expected, "{document} {header:?}");
        }
    }

    #[test]
    fn what_cannot_be_copied_is_refused_with_the_reason() {
        let both = json!({"manifests": [], "layers": [], "config": descriptor(1, "")});
        let bad_digest = json!({"config": {"digest": "sha256:1", "size": 1}});
        let bad_size = json!({"config": {"digest": digest(1).as_str(), "size": -1}});
        for (document, reason) in [
            (json!({"schemaVersion": 1, "fsLayers": []}), "schema 1"),
            (both, "both"),
            (json!({"schemaVersion": 2}), "neither"),
            (bad_digest, "sha256:1"),
            (bad_size, "-1"),
            (json!([]), "not one of an image"),
        ] {
            let error = read(&document, None).unwrap_err();
            assert!(error.contains(reason), "{document}: {error}");
        }
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("registry-manifests", read_manifest), Parser::of("image-references", read_reference)]
    }

    fn read_manifest(bytes: &[u8]) {
        let Ok(manifest) = Manifest::read(Bytes::copy_from_slice(bytes), Some(DOCKER_LIST)) else { return };
        if let Content::Index(children) = &manifest.content {
            let _ = choose(children, &"linux/arm".parse().unwrap());
        }
    }

    fn read_reference(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let _ = (text.parse::<crate::Reference>(), text.parse::<Platform>(), text.parse::<Digest>());
    }

    strike_all!(parsers);

    #[test]
    fn a_platform_is_found_by_what_was_asked_for() {
        let offered = ["linux/amd64", "linux/arm/v6", "linux/arm/v7", "unknown/unknown"];
        let children: Vec<Child> = (0..)
            .zip(offered)
            .map(|(number, platform)| Child { digest: digest(number), platform: Some(platform.parse().unwrap()) })
            .collect();
        let chosen = |wanted: &str| choose(&children, &wanted.parse().unwrap()).map(|child| child.digest.clone());
        for (wanted, number) in [("linux/amd64", 0), ("linux/arm", 1), ("linux/arm/v7", 2)] {
            assert_eq!(chosen(wanted).unwrap(), digest(number), "{wanted}");
        }
        let error = chosen("windows/amd64").unwrap_err().to_string();
        assert!(error.contains("windows/amd64") && error.contains("linux/arm/v7"), "{error}");
        assert!("linux".parse::<Platform>().is_err());
    }
}
