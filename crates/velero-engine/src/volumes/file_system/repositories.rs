//! Whether the repositories of namespaces can be used: asked once for each, however many pods there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

use super::super::means::{CopyMeans, RepositoryUnusable};
use crate::lock;

/// Why there is no place for the data of the volumes of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the repository of namespace {namespace} in location {location} cannot be used: {problem}")]
pub(super) struct NoRepository {
    namespace: String,
    location: String,
    problem: RepositoryUnusable,
}

/// Whether a repository can be used, or why not; once it is known.
type Answer = Arc<OnceCell<Result<(), RepositoryUnusable>>>;

/// The repositories of a location, as far as they were asked for.
#[derive(Default)]
pub(super) struct Repositories {
    ensured: Mutex<HashMap<String, Answer>>,
}

impl Repositories {
    /// Waits until the repository of a namespace can be used; an error says why it cannot.
    pub(super) async fn ensure(&self, means: &CopyMeans, namespace: &str, location: &str) -> Result<(), NoRepository> {
        let ensured = Arc::clone(lock(&self.ensured).entry(namespace.to_owned()).or_default());
        let answer = ensured.get_or_init(|| means.ensure_repository(namespace, location)).await.clone();
        let (namespace, location) = (namespace.to_owned(), location.to_owned());
        answer.map_err(|problem| NoRepository { namespace, location, problem })
    }
}
