//! References: how an image is named.

use std::fmt;
use std::str::FromStr;

use crate::{Digest, Problem};

/// The registry of names that begin with none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The tag of an image that is asked for without one.
const DEFAULT_TAG: &str = "latest";

/// The name of an image: registry, repository, and a tag, a digest, both or none.
///
/// Where both are given, the digest decides what is read and the tag what is written. A destination with neither is
/// written under its digest alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// A repository of a registry, without tag or digest.
    pub fn new(registry: &str, repository: &str) -> Result<Self, Problem> {
        let invalid = |reason| invalid(&format!("{registry}/{repository}"), reason);
        check_registry(registry).map_err(invalid)?;
        check_repository(repository).map_err(invalid)?;
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), tag: None, digest: None })
    }

    /// The same repository with this tag.
    pub fn with_tag(mut self, tag: &str) -> Result<Self, Problem> {
        check_tag(tag).map_err(|reason| invalid(&format!("{self}:{tag}"), reason))?;
        self.tag = Some(tag.to_owned());
        Ok(self)
    }

    /// The same repository with this digest.
    #[must_use]
    pub fn with_digest(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// The registry: a host, with its port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository, without the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, where one is given.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, where one is given.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What a registry is asked for to read the image.
    pub(crate) fn version(&self) -> &str {
        self.digest.as_ref().map(Digest::as_str).or(self.tag()).unwrap_or(DEFAULT_TAG)
    }
}

impl FromStr for Reference {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if text.contains("://") {
            return Err(invalid(text, "leave the scheme out: registry/repository:tag".into()));
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                let digest = digest.parse::<Digest>().map_err(|error| invalid(text, error.to_string()))?;
                (name, Some(digest))
            }
            None => (text, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let (registry, repository) = split_registry(path);
        let reference = Self::new(&registry, &repository).map_err(|problem| with_text(problem, text))?;
        let reference = match tag {
            Some(tag) => reference.with_tag(tag).map_err(|problem| with_text(problem, text))?,
            None => reference,
        };
        Ok(Self { digest, ..reference })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

/// The registry and the repository of a name, as container engines tell them apart.
fn split_registry(path: &str) -> (String, String) {
    let (registry, repository) = match path.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':', '[']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_REGISTRY, path),
    };
    let official = registry == DEFAULT_REGISTRY && !repository.contains('/');
    (registry.to_owned(), if official { format!("library/{repository}") } else { repository.to_owned() })
}

fn check_registry(registry: &str) -> Result<(), String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    if registry.is_empty() || !registry.bytes().all(known) {
        return Err(format!("the registry must be a host with or without a port, not {registry:?}"));
    }
    Ok(())
}

fn check_repository(repository: &str) -> Result<(), String> {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let component = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(byte) || b"._-".contains(byte))
    };
    if repository.len() > 255 || !repository.split('/').all(component) {
        return Err(format!(
            "the repository {repository:?} must be lower-case letters, digits and . _ - between slashes, 255 at most"
        ));
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let rest = |byte: u8| word(byte) || byte == b'.' || byte == b'-';
    if tag.len() > 128 || !tag.bytes().next().is_some_and(word) || !tag.bytes().all(rest) {
        return Err(format!(
            "the tag {tag:?} must be letters, digits and _ . -, 128 at most, not beginning with . or -"
        ));
    }
    Ok(())
}

fn invalid(reference: &str, reason: String) -> Problem {
    Problem::InvalidReference { reference: reference.to_owned(), reason }
}

fn with_text(problem: Problem, text: &str) -> Problem {
    match problem {
        Problem::InvalidReference { reason, .. } => invalid(text, reason),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn references_are_read_as_container_engines_do() {
        for (text, registry, repository, version) in [
            ("nginx", "docker.io", "library/nginx", "latest"),
            ("team/nginx:1", "docker.io", "team/nginx", "1"),
            ("docker.io/nginx", "docker.io", "library/nginx", "latest"),
            ("quay.io/a/b/c:v1.2", "quay.io", "a/b/c", "v1.2"),
            ("localhost/a", "localhost", "a", "latest"),
            ("127.0.0.1:5000/a_b/c-d", "127.0.0.1:5000", "a_b/c-d", "latest"),
            ("[::1]:5000/a", "[::1]:5000", "a", "latest"),
            ("registry.svc:5000/shop/web:v1", "registry.svc:5000", "shop/web", "v1"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!((reference.registry(), reference.repository()), (registry, repository), "{text}");
            assert_eq!(reference.version(), version, "{text}");
        }
    }

    #[test]
    fn the_digest_decides_what_is_read_and_the_tag_is_kept() {
        let text = format!("r.io/a/b:v1@{DIGEST}");
        let reference: Reference = text.parse().unwrap();
        assert_eq!((reference.tag(), reference.version()), (Some("v1"), DIGEST));
        assert_eq!(reference.to_string(), text);
    }

    #[test]
    fn what_is_no_reference_is_refused_with_the_text_named() {
        for text in [
            "",
            "UPPER/case",
            "r.io/",
            "r.io/a//b",
            "r.io/a:",
            "r.io/a:-x",
            "r.io/a@sha256:1",
            "r.io/a@",
            "docker://r.io/a",
            "r.io/-a",
            "r.io/a b",
            "a?b.io/c",
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{text:?}: {error}");
        }
        assert!(Reference::new("r.io", "a/b").unwrap().with_tag(&"x".repeat(129)).is_err());
        assert!(Reference::new("r.io", &"x".repeat(256)).is_err());
    }
}
