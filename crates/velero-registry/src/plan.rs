//! What a copy consists of: the manifests in the order they are written, and the blobs they need.

use std::collections::HashSet;

use crate::copy::{Options, Platforms};
use crate::manifest::{Blob, Content, Manifest, choose};
use crate::{Digest, Image, Problem};

/// Indexes may hold indexes; deeper than this nobody means it.
const DEEPEST: usize = 4;
/// More manifests than any image has.
const MOST_MANIFESTS: usize = 1_000;

/// A plan, made from the source alone.
#[derive(Default)]
pub(crate) struct Plan {
    /// Children before those that refer to them: the last one is the image.
    pub(crate) manifests: Vec<Manifest>,
    /// Each blob once, the largest first, so that none is left for the end alone.
    pub(crate) blobs: Vec<Blob>,
    seen: HashSet<Digest>,
}

impl Plan {
    /// Reads the manifests of an image and plans the copy.
    pub(crate) async fn make(source: &Image, options: &Options) -> Result<Self, Problem> {
        let fetch = async |version: &str| options.retry.run(|| source.manifest(version)).await;
        let mut root = fetch(source.reference().version()).await?;
        if let Platforms::One(platform) = &options.platforms {
            for _ in 0..DEEPEST {
                let Content::Index(children) = &root.content else { break };
                root = fetch(choose(children, platform)?.digest.as_str()).await?;
            }
        }
        let mut plan = Self::default();
        plan.add(root, source, options, 0).await?;
        plan.blobs.sort_by_key(|blob| std::cmp::Reverse(blob.size));
        Ok(plan)
    }

    /// The sum of all blobs.
    pub(crate) fn bytes(&self) -> u64 {
        self.blobs.iter().fold(0, |sum, blob| sum.saturating_add(blob.size))
    }

    async fn add(
        &mut self,
        manifest: Manifest,
        source: &Image,
        options: &Options,
        depth: usize,
    ) -> Result<(), Problem> {
        if depth > DEEPEST || self.seen.len() > MOST_MANIFESTS {
            let reason = format!("its index is deeper than {DEEPEST} or lists more than {MOST_MANIFESTS} things");
            return Err(Problem::Unsupported { reason });
        }
        match &manifest.content {
            Content::Blobs(blobs) => {
                let new = blobs.iter().filter(|blob| self.seen.insert(blob.digest.clone()));
                self.blobs.extend(new.cloned());
            }
            Content::Index(children) => {
                for child in children {
                    if self.seen.insert(child.digest.clone()) {
                        let child = options.retry.run(|| source.manifest(child.digest.as_str())).await?;
                        Box::pin(self.add(child, source, options, depth + 1)).await?;
                    }
                }
            }
        }
        self.manifests.push(manifest);
        Ok(())
    }
}
