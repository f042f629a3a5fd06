//! Whether the repositories of namespaces can be used: asked once for each, however many pods there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

use super::super::means::{CopyMeans, RepositoryUnusable};
use crate::lock;

/// Whether a repository can be used, or why not; once it is known.
type Answer = Arc<OnceCell<Result<(), RepositoryUnusable>>>;

/// The repositories of a location, as far as they were asked for.
#[derive(Default)]
pub(super) struct Repositories {
    ensured: Mutex<HashMap<String, Answer>>,
}

impl Repositories {
    /// Waits until the repository of a namespace can be used; an error says why it cannot.
    pub(super) async fn ensure(&self, means: &CopyMeans, namespace: &str, location: &str) -> Result<(), String> {
        let ensured = Arc::clone(lock(&self.ensured).entry(namespace.to_owned()).or_default());
        let answer = ensured.get_or_init(|| means.ensure_repository(namespace, location)).await.clone();
        answer.map_err(|problem| {
            format!("the repository of namespace {namespace} in location {location} cannot be used: {problem}")
        })
    }
}
