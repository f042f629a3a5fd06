//! All image streams, and what happens to them: requests, pushes, and tags that follow other tags.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

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
        self.store(namespace, &name, stream);
        self.get(namespace, &name).cloned()
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
        self.store(namespace, name, stream);
        self.get(namespace, name).cloned()
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
        self.store(namespace, name, stream);
        self.get(namespace, name)
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

    fn store(&mut self, namespace: &str, name: &str, mut stream: Value) {
        self.version += 1;
        stream["metadata"]["resourceVersion"] = self.version.to_string().into();
        stream["status"]["dockerImageRepository"] = format!("{}/{namespace}/{name}", self.registry).into();
        self.all.insert(key(namespace, name), stream);
        self.follow();
    }

    /// Tags that follow something get its image, until nothing changes; a circle ends as well.
    fn follow(&mut self) {
        for _ in 0..self.all.len() + 1 {
            let mut changed = false;
            for (namespace, name) in self.all.keys().cloned().collect::<Vec<_>>() {
                changed |= self.follow_of(&namespace, &name);
            }
            if !changed {
                return;
            }
        }
    }

    fn follow_of(&mut self, namespace: &str, name: &str) -> bool {
        let stream = &self.all[&key(namespace, name)];
        let found: Vec<(String, String, String)> = tags::followers(stream)
            .filter_map(|(tag, from)| {
                let (reference, image) = self.resolve(from, namespace)?;
                Some((tag.to_owned(), reference, image))
            })
            .collect();
        let Some(stream) = self.all.get_mut(&key(namespace, name)) else { return false };
        let mut changed = false;
        for (tag, reference, image) in found {
            changed |= tags::record(stream, &tag, &reference, &image);
        }
        changed
    }

    /// The reference and the digest of what a tag follows.
    fn resolve(&self, from: &Value, own: &str) -> Option<(String, String)> {
        let (kind, name) = (from["kind"].as_str()?, from["name"].as_str()?);
        let namespace = from["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        match kind {
            "DockerImage" => Some((name.to_owned(), tags::digest_of(name))),
            "ImageStreamTag" => {
                let (stream, tag) = name.split_once(':')?;
                tags::newest(self.get(namespace, stream).ok()?, tag)
            }
            "ImageStreamImage" => {
                let (stream, digest) = name.split_once('@')?;
                Some((format!("{}/{namespace}/{stream}@{digest}", self.registry), digest.to_owned()))
            }
            _ => None,
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
