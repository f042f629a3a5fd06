//! All image streams, and what happens to them: requests, pushes, and tags that follow other tags.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::GROUP;
use crate::answers::Problem;
use crate::discovery::{Resource, api_version};
use crate::tags;

/// A manifest that was pushed under a tag.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) namespace: String,
    pub(crate) stream: String,
    pub(crate) tag: String,
    pub(crate) digest: String,
}

/// An image in the internal registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    pub(crate) repository: String,
    pub(crate) digest: String,
}

/// Namespace and name.
type Key = (String, String);

/// All image streams of a cluster.
pub(crate) struct Streams {
    registry: String,
    all: BTreeMap<Key, Value>,
    version: u64,
}

impl Streams {
    pub(crate) fn new(registry: &str) -> Self {
        Self { registry: registry.to_owned(), all: BTreeMap::new(), version: 1 }
    }

    /// The number of the last change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Result<&Value, Problem> {
        self.all.get(&key(namespace, name)).ok_or_else(|| Problem::not_found(Resource::Streams, name))
    }

    /// Those of a namespace, or all.
    pub(crate) fn list<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Value> {
        let wanted = move |key: &Key| namespace.is_none_or(|namespace| key.0 == namespace);
        self.all.iter().filter(move |(key, _)| wanted(key)).map(|(_, stream)| stream)
    }

    pub(crate) fn create(&mut self, namespace: &str, mut stream: Value) -> Result<Value, Problem> {
        let name = stream["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() || name.contains([':', '/', '@']) {
            return Err(Problem::Invalid(format!("metadata.name: {name:?} is no name of an image stream")));
        }
        if self.all.contains_key(&key(namespace, &name)) {
            return Err(Problem::already_exists(Resource::Streams, &name));
        }
        complete(&mut stream, namespace, &name);
        self.store(namespace, &name, stream).cloned()
    }

    /// Puts a stream in the place of one that is there; it stays the same object.
    pub(crate) fn replace(&mut self, namespace: &str, name: &str, mut stream: Value) -> Result<Value, Problem> {
        let old = self.get(namespace, name)?;
        for field in ["uid", "creationTimestamp"] {
            stream["metadata"][field] = old["metadata"][field].clone();
        }
        if stream.get("status").is_none() {
            stream["status"] = old["status"].clone();
        }
        complete(&mut stream, namespace, name);
        self.store(namespace, name, stream).cloned()
    }

    /// Changes a stream; it is made if `make` says so.
    pub(crate) fn change(
        &mut self,
        namespace: &str,
        name: &str,
        make: bool,
        change: impl FnOnce(&mut Value) -> Result<(), Problem>,
    ) -> Result<&Value, Problem> {
        let mut stream = match self.get(namespace, name) {
            Ok(stream) => stream.clone(),
            Err(_) if make => {
                let mut stream = json!({});
                complete(&mut stream, namespace, name);
                stream
            }
            Err(problem) => return Err(problem),
        };
        change(&mut stream)?;
        self.store(namespace, name, stream)
    }

    /// Removes a stream and gives the images that go with it.
    pub(crate) fn delete(&mut self, namespace: &str, name: &str) -> Result<Vec<Image>, Problem> {
        let removed = self.get(namespace, name)?.clone();
        self.all.remove(&key(namespace, name));
        self.version += 1;
        Ok(self.images(&removed).into_iter().collect())
    }

    /// Removes a tag of a stream and gives the images that no other tag of the stream has.
    pub(crate) fn delete_tag(&mut self, namespace: &str, name: &str, tag: &str) -> Result<Vec<Image>, Problem> {
        let before = self.images(self.get(namespace, name)?);
        let removed = |stream: &mut Value| match tags::remove(stream, tag) {
            true => Ok(()),
            false => Err(Problem::not_found(Resource::StreamTags, &format!("{name}:{tag}"))),
        };
        let after = self.change(namespace, name, false, removed)?.clone();
        Ok(before.difference(&self.images(&after)).cloned().collect())
    }

    /// A push makes the stream where it is missing, and the image the newest of the tag.
    pub(crate) fn pushed(&mut self, push: &Push) {
        let Push { namespace, stream, tag, digest } = push;
        let reference = format!("{}/{namespace}/{stream}@{digest}", self.registry);
        let recorded = self.change(namespace, stream, true, |stream| {
            tags::record(stream, tag, &reference, digest);
            Ok(())
        });
        debug_assert!(recorded.is_ok(), "a stream that is made is there");
    }

    fn store(&mut self, namespace: &str, name: &str, mut stream: Value) -> Result<&Value, Problem> {
        let own = key(namespace, name);
        let old = self.all.get(&own);
        self.take(old, &mut stream, &own)?;
        follow_changes(old, &mut stream, &own);
        self.version += 1;
        stream["metadata"]["resourceVersion"] = self.version.to_string().into();
        stream["status"]["dockerImageRepository"] = format!("{}/{namespace}/{name}", self.registry).into();
        self.all.insert(own, stream);
        self.get(namespace, name)
    }

    /// Tags that are told anew where they are from take the image that is there now. Only tags of their own stream are
    /// followed later.
    fn take(&self, old: Option<&Value>, stream: &mut Value, own: &Key) -> Result<(), Problem> {
        let was = |tag: &str| old.and_then(|old| tags::followers(old).find(|(name, _)| *name == tag));
        let is_new = |(tag, from): &(&str, &Value)| was(tag).is_none_or(|(_, was)| was != *from);
        let told = tags::followers(stream).filter(is_new).map(|(tag, from)| (tag.to_owned(), from.clone()));
        for (tag, from) in told.collect::<Vec<_>>() {
            if let Some((reference, image)) = self.source(stream, own, &tag, &from)? {
                tags::record(stream, &tag, &reference, &image);
            }
        }
        Ok(())
    }

    /// The reference and the digest of what a tag is from. What is not there is refused; only a tag of the same stream may
    /// come later. OpenShift itself refuses missing streams and images, and takes a missing tag of a stream that is there,
    /// but never gives the tag its image then: nothing may rely on that.
    fn source(&self, stream: &Value, own: &Key, tag: &str, from: &Value) -> Result<Option<(String, String)>, Problem> {
        let (kind, name) = (from["kind"].as_str().unwrap_or_default(), from["name"].as_str().unwrap_or_default());
        if kind == "DockerImage" {
            return Ok(Some((name.to_owned(), tags::digest_of(name))));
        }
        let refuse = |problem: &str| {
            let field = format!("spec.tags[{tag}].from.name");
            Problem::Invalid(format!("ImageStream.{GROUP} {:?} is invalid: {field}: {problem}: {name:?}", own.1))
        };
        let Some((source, rest)) = split(from, own) else {
            return Err(refuse("must be of the form <tag>, <repo>:<tag>, <id>, or <repo>@<id>"));
        };
        let is_own = source == *own;
        let found = if is_own { Some(stream) } else { self.all.get(&source) };
        let image = found.and_then(|found| match kind {
            "ImageStreamTag" => tags::newest(found, rest),
            _ => tags::has(found, rest)
                .then(|| (format!("{}/{}/{}@{rest}", self.registry, source.0, source.1), rest.to_owned())),
        });
        match image {
            None if is_own && kind == "ImageStreamTag" => Ok(None),
            None => Err(refuse("Not found")),
            image => Ok(image),
        }
    }

    /// The images of a stream that the internal registry holds under its name.
    fn images(&self, stream: &Value) -> BTreeSet<Image> {
        let prefix = format!("{}/", self.registry);
        let own = |reference: &str| {
            let (repository, digest) = reference.strip_prefix(&prefix)?.split_once('@')?;
            let is_own = stream["status"]["dockerImageRepository"] == format!("{prefix}{repository}").as_str();
            is_own.then(|| Image { repository: repository.to_owned(), digest: digest.to_owned() })
        };
        tags::references(stream).filter_map(own).collect()
    }
}

/// The stream that a tag is from, and the tag or digest in it; `None` where a reference says neither.
fn split<'a>(from: &'a Value, own: &Key) -> Option<(Key, &'a str)> {
    let (kind, name) = (from["kind"].as_str()?, from["name"].as_str()?);
    let mark = match kind {
        "ImageStreamTag" => ':',
        "ImageStreamImage" => '@',
        _ => return None,
    };
    let namespace = from["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or(&own.0);
    let (stream, rest) = name.split_once(mark).unwrap_or((&own.1, name));
    (!rest.is_empty() && !rest.contains(mark)).then(|| (key(namespace, stream), rest))
}

/// Tags that follow a tag of their own stream get the image it has now.
fn follow_changes(old: Option<&Value>, stream: &mut Value, own: &Key) {
    let was = |tag: &str| old.and_then(|old| tags::newest(old, tag));
    let changed: Vec<String> =
        tags::names(stream).filter(|tag| tags::newest(stream, tag) != was(tag)).map(str::to_owned).collect();
    for tag in changed {
        follow(stream, own, &tag);
    }
}

/// A circle ends: a tag that has the image already is not followed again.
fn follow(stream: &mut Value, own: &Key, tag: &str) {
    let Some((reference, image)) = tags::newest(stream, tag) else { return };
    let follows = |from: &Value| {
        from["kind"] == "ImageStreamTag" && split(from, own).is_some_and(|(source, it)| source == *own && it == tag)
    };
    let followers: Vec<String> =
        tags::followers(stream).filter(|(_, from)| follows(from)).map(|(tag, _)| tag.to_owned()).collect();
    for follower in followers {
        if tags::record(stream, &follower, &reference, &image) {
            follow(stream, own, &follower);
        }
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

/// Fills in what every stream has.
fn complete(stream: &mut Value, namespace: &str, name: &str) {
    stream["kind"] = Resource::Streams.kind().into();
    stream["apiVersion"] = api_version().into();
    let metadata = &mut stream["metadata"];
    metadata["namespace"] = namespace.into();
    metadata["name"] = name.into();
    if metadata["uid"].as_str().is_none_or(str::is_empty) {
        metadata["uid"] = Uuid::new_v4().to_string().into();
    }
    if metadata["creationTimestamp"].as_str().is_none() {
        metadata["creationTimestamp"] = now().into();
    }
    if !stream["spec"].is_object() {
        stream["spec"] = json!({"lookupPolicy": {"local": false}});
    }
    if !stream["status"].is_object() {
        stream["status"] = json!({});
    }
}

/// The present moment, to the second.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
