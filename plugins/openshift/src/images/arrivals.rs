//! The tags that the copies of a restore make. OpenShift refuses a tag from a tag of another stream that is not there, so
//! what follows one of these waits until it was pushed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use velero_api::v1::Restore;
use velero_plugin::{Error, Result};

use super::operations::Place;
use super::plan::ImageCopy;
use crate::lock;
use crate::lookups::{Lookups, types};

const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a copy may take where the restore does not say it: the default of the server.
const LONGEST_COPY: Duration = Duration::from_hours(4);
/// How long a tag may take to appear after its image was pushed.
const AFTER_PUSH: Duration = Duration::from_secs(30);

/// Which tags are on their way: `namespace/stream:tag`, with the operation that brings it unless that has ended.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<BTreeMap<String, Option<String>>>);

impl Arrivals {
    /// Notes what copies make. What is pushed by digest makes no tag.
    pub(crate) fn expect(&self, copies: &[ImageCopy], operation: Option<&str>) {
        let tags = copies.iter().map(|copy| &copy.destination.path).filter(|path| !path.contains('@'));
        let mut all = lock(&self.0);
        all.extend(tags.map(|path| (path.clone(), operation.map(str::to_owned))));
    }

    /// The operation that brings a tag; `None` for a tag that no copy makes.
    fn operation_of(&self, namespace: &str, tag: &str) -> Option<Option<String>> {
        let all = lock(&self.0);
        all.get(&format!("{namespace}/{tag}")).cloned()
    }
}

/// Waits for a tag that a copy of this restore makes; returns at once for others.
pub(crate) async fn wait(
    lookups: &Lookups,
    place: &Place<'_>,
    restore: &Restore,
    (namespace, tag): (&str, &str),
) -> Result<()> {
    let Some(operation) = lookups.arrivals.operation_of(namespace, tag) else { return Ok(()) };
    let error = match operation {
        Some(id) => copied(place, &id, restore, (namespace, tag)).await?,
        None => String::new(),
    };
    let deadline = Instant::now() + AFTER_PUSH;
    while lookups.get(types::image_stream_tags().item(Some(namespace), tag)).await?.is_none() {
        if Instant::now() >= deadline || !error.is_empty() {
            let reason = if error.is_empty() { "its push made no tag" } else { error.as_str() };
            let problem = format!("ImageStreamTag {namespace}/{tag}, which it follows, is not there: {reason}");
            return Err(Error::Item(problem));
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Waits for the end of a copy; gives its error, or nothing.
async fn copied(place: &Place<'_>, id: &str, restore: &Restore, (namespace, tag): (&str, &str)) -> Result<String> {
    let asked = restore.spec.item_operation_timeout.to_std();
    let longest = if asked.is_zero() { LONGEST_COPY } else { asked };
    let deadline = Instant::now() + longest;
    loop {
        let progress = place.progress(id).await?;
        if progress.completed {
            return Ok(progress.error);
        }
        if Instant::now() >= deadline {
            return Err(Error::Item(format!(
                "ImageStreamTag {namespace}/{tag}, which it follows, is still being copied after {longest:?} ({}); raise \
                 itemOperationTimeout of the restore",
                progress.description
            )));
        }
        sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::plan::ImageName;

    #[test]
    fn a_copy_makes_the_tags_it_pushes() {
        let copy = |path: &str| {
            let name = ImageName { registry: "new:5000".to_owned(), path: path.to_owned() };
            ImageCopy { source: name.clone(), destination: name, image: String::new() }
        };
        let arrivals = Arrivals::default();
        arrivals.expect(&[copy("shop/web:v1"), copy("shop/web@sha256:1")], Some("op"));
        arrivals.expect(&[copy("shop/base:v1")], None);
        for (tag, expected) in
            [("web:v1", Some(Some("op".to_owned()))), ("web@sha256:1", None), ("base:v1", Some(None)), ("web:v2", None)]
        {
            assert_eq!(arrivals.operation_of("shop", tag), expected, "{tag}");
            assert_eq!(arrivals.operation_of("store", tag), None);
        }
    }
}
