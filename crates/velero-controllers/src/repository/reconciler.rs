//! Brings a BackupRepository to Ready, and keeps it maintained.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use velero_api::metadata::{name, uid};
use velero_api::repository::KOPIA;
use velero_api::v1::{BackupRepository, BackupRepositoryPhase};

use crate::repository::establish::{Established, establish};
use crate::repository::maintenance::maintain_if_due;
use crate::repository::state::{PERIOD, RE_ESTABLISH, write_not_ready};
use crate::runtime::context::SharedContext;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;
use crate::runtime::lock::lock;

/// How soon a location is looked at again of which it is not known yet whether it can be used.
const SOON: Duration = Duration::from_secs(1);

/// Watches BackupRepositories.
pub(crate) struct BackupRepositoryReconciler {
    context: SharedContext,
    /// When the repositories that are not ready were last tried, by UID.
    tried: Mutex<HashMap<String, Instant>>,
    /// Held by the one maintenance that may run in this process.
    in_process: Semaphore,
}

impl BackupRepositoryReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, tried: Mutex::default(), in_process: Semaphore::new(1) }
    }

    /// How long it is until a repository that is not ready is tried again. One whose location has changed is tried at once.
    fn pause_left(&self, repository: &BackupRepository) -> Duration {
        if repository.status.message == RE_ESTABLISH {
            return Duration::ZERO;
        }
        let tried = lock(&self.tried).get(uid(repository)).copied();
        tried.map_or(Duration::ZERO, |tried| PERIOD.saturating_sub(tried.elapsed()))
    }
}

impl Reconciler for BackupRepositoryReconciler {
    type Kind = BackupRepository;
    const CONTROLLER: Controller = Controller::BackupRepository;
    const CONCURRENCY: u16 = 8;

    async fn reconcile(&self, repository: BackupRepository) -> Result<Next> {
        if repository.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Change);
        }
        if repository.spec.repository_type != KOPIA {
            return self.refuse_type(&repository).await;
        }
        let repository = match repository.status.phase() {
            BackupRepositoryPhase::Ready => repository,
            BackupRepositoryPhase::New | BackupRepositoryPhase::NotReady => {
                let pause = self.pause_left(&repository);
                if !pause.is_zero() {
                    return Ok(Next::After(pause));
                }
                // A server that ends leaves it to the next.
                let establishing = self.context.unless_stopped(establish(&self.context, &repository)).await;
                match establishing.unwrap_or(Ok(Established::Later))? {
                    Established::Ready(repository) => *repository,
                    Established::NotReady => {
                        lock(&self.tried).insert(uid(&repository).to_owned(), Instant::now());
                        return Ok(Next::After(PERIOD));
                    }
                    Established::Later => return Ok(Next::After(SOON)),
                }
            }
            _ => return Ok(Next::Change),
        };
        lock(&self.tried).remove(uid(&repository));
        maintain_if_due(&self.context, &repository, &self.in_process).await
    }

    fn forget(&self, name: &str) {
        self.context.metrics.end_repository(name);
    }
}

impl BackupRepositoryReconciler {
    /// Says of a new repository that its kind is not one of ours; others are left as they are.
    async fn refuse_type(&self, repository: &BackupRepository) -> Result<Next> {
        if *repository.status.phase() == BackupRepositoryPhase::New {
            let kind = &repository.spec.repository_type;
            let problem = format!(
                "spec.repositoryType is {kind:?}, and only {KOPIA:?} can be used; delete BackupRepository {:?}",
                name(repository)
            );
            write_not_ready(&self.context, repository, problem).await?;
        }
        Ok(Next::Change)
    }
}
