//! Which images of a stream are copied, and where to.
//!
//! All images of the history of a tag are copied, the newest last, so that the tag ends where it was. A tag that follows
//! something else is no tag of the copy: its images are pushed by digest.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use velero_plugin::item::{describe, elements, elements_mut, text};
use velero_plugin::{Error, Result};
use velero_registry::{Digest, Problem, Reference};

use crate::compat::Compat;
use crate::settings::Settings;

/// From where to where the images of a stream are copied.
#[derive(Debug, Clone)]
pub(crate) struct Route<'a> {
    /// The registry that references in the stream name.
    pub(crate) local: &'a str,
    pub(crate) source: &'a str,
    pub(crate) destination: &'a str,
    /// The namespace at the destination.
    pub(crate) namespace: &'a str,
    /// Whether the source was written by a backup, under the name of the stream.
    pub(crate) of_backup: bool,
}

/// An image to copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageCopy {
    pub(crate) source: ImageName,
    pub(crate) destination: ImageName,
    /// The digest it has in the stream.
    pub(crate) image: String,
}

/// The name of an image. The registry is told apart because a short one looks like a part of the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageName {
    pub(crate) registry: String,
    /// Repository, and tag or digest.
    pub(crate) path: String,
}

impl fmt::Display for ImageName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.path)
    }
}

impl ImageName {
    /// A registry with what follows it in a reference; what comes before the first slash is part of the registry's name.
    fn new(registry: &str, rest: &str) -> Self {
        let (end, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self { registry: format!("{registry}{end}"), path: path.to_owned() }
    }

    /// The name as registries are asked for it.
    pub(crate) fn reference(&self) -> Result<Reference, Problem> {
        let (name, digest) =
            self.path.split_once('@').map_or((self.path.as_str(), None), |(name, it)| (name, Some(it)));
        let (repository, tag) = name.split_once(':').map_or((name, None), |(name, it)| (name, Some(it)));
        let mut reference = Reference::new(&self.registry, repository)?;
        if let Some(tag) = tag {
            reference = reference.with_tag(tag)?;
        }
        let Some(digest) = digest else { return Ok(reference) };
        let digest = digest
            .parse::<Digest>()
            .map_err(|error| Problem::InvalidReference { reference: self.to_string(), reason: error.to_string() })?;
        Ok(reference.with_digest(digest))
    }
}

/// The images of a stream to copy, in that order.
pub(crate) fn copies(stream: &Value, route: &Route<'_>, settings: &Settings) -> Result<Vec<ImageCopy>> {
    let mut copies = Vec::new();
    for tag in elements(stream, "/status/tags") {
        let items: Vec<_> = elements(tag, "/items").collect();
        for item in items.into_iter().rev() {
            let Some(rest) = local_rest(text(item, "/dockerImageReference"), route.local, settings) else { continue };
            check_registries(stream, route)?;
            let copy = one(stream, text(tag, "/tag"), item, rest, route, settings);
            for name in [&copy.source, &copy.destination] {
                name.reference().map_err(|problem| Error::Item(format!("{}: {problem}", describe(stream))))?;
            }
            copies.push(copy);
        }
    }
    Ok(copies)
}

fn one(stream: &Value, tag: &str, item: &Value, rest: &str, route: &Route<'_>, settings: &Settings) -> ImageCopy {
    let image = text(item, "/image");
    let name = text(stream, "/metadata/name");
    let source = match route.of_backup && !settings.compat(Compat::ImagePath) {
        true => ImageName::new(route.source, &format!("/{}/{name}@{image}", text(stream, "/metadata/namespace"))),
        false => ImageName::new(route.source, rest),
    };
    let destination = match (is_own_tag(stream, tag), settings.compat(Compat::PushLatest)) {
        (true, _) => format!("/{}/{name}:{tag}", route.namespace),
        (false, true) => format!("/{}/{name}:latest", route.namespace),
        (false, false) => format!("/{}/{name}@{image}", route.namespace),
    };
    ImageCopy { source, destination: ImageName::new(route.destination, &destination), image: image.to_owned() }
}

/// What follows the registry in the reference of an internal image; `None` for other images.
fn local_rest<'a>(reference: &'a str, local: &str, settings: &Settings) -> Option<&'a str> {
    let rest = reference.strip_prefix(local).filter(|_| !local.is_empty())?;
    (rest.starts_with('/') || settings.compat(Compat::RegistryPrefix)).then_some(rest)
}

/// Whether a tag is one of the stream itself, not one that follows something else.
fn is_own_tag(stream: &Value, tag: &str) -> bool {
    let spec = elements(stream, "/spec/tags").find(|spec| text(spec, "/name") == tag);
    let Some(from) = spec.and_then(|spec| spec.get("from")) else { return true };
    let namespace = text(from, "/namespace");
    let is_here = namespace.is_empty() || namespace == text(stream, "/metadata/namespace");
    text(from, "/kind") == "ImageStreamImage" && is_here
}

fn check_registries(stream: &Value, route: &Route<'_>) -> Result<()> {
    let stream = describe(stream);
    if route.source.is_empty() {
        return Err(Error::Item(format!("{stream}: copy source registry not found but it has internal images")));
    }
    if route.destination.is_empty() {
        return Err(Error::Item(format!("{stream}: copy destination registry not found but it has internal images")));
    }
    Ok(())
}

/// Writes the digests that copies got into a stream: each pair is what it was and what it is.
pub(crate) fn update_digests(stream: &mut Value, digests: &[(String, String)]) {
    for tag in elements_mut(stream, "/status/tags") {
        for item in elements_mut(tag, "/items") {
            let Some((old, new)) = digests.iter().find(|(old, _)| text(item, "/image") == old) else { continue };
            if old == new {
                continue;
            }
            item["image"] = new.as_str().into();
            if let [name, _digest] = text(item, "/dockerImageReference").split('@').collect::<Vec<_>>().as_slice() {
                item["dockerImageReference"] = format!("{name}@{new}").into();
            }
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
