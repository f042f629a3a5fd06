//! Actions whose operations go as the items say, and a look at the phases that objects pass through.
//!
//! An item with the annotation `test.velero.io/backup` starts an operation when it is backed up, one with
//! `test.velero.io/restore` when it is restored. The value is the course of the operation:
//!
//! | value | the operation |
//! |---|---|
//! | `takes=3` | ends well when it is asked about for the third time |
//! | `fails=3` | ends badly then |
//! | `errs=3` | cannot be asked about then |
//! | `never` | never ends, unless it is cancelled |
//! | `unknown` | is not known to the action |
//! | `unsupported` | is of an action that knows no operations |
//! | `refused` | is not started: the item fails |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use velero_api::records::ResourceIdentifier;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupSpec, Restore};
use velero_controllers::server::{Controller, Settings};
use velero_plugin::{
    ActionSource, Actions, BackupItemAction, BackupItemOutcome, Error, OperationProgress, ResourceSelector,
    RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};
use velero_testkit::TestCluster;
use velero_testkit::harness::unique_name;

use crate::operation_table::hasty;
use crate::support::{Server, api, delete_namespace, settings};

pub(crate) const BACKUP_ACTION: &str = "test.velero.io/backup";
pub(crate) const RESTORE_ACTION: &str = "test.velero.io/restore";
/// Names a ConfigMap of the namespace to store again after the operation.
const UPDATE: &str = "test.velero.io/update";
/// For how many seconds the call lasts that has started the operation.
const SLOWLY: &str = "test.velero.io/slowly";

/// What became of the operations; shared by all servers of a test.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: BTreeMap<String, u32>,
    started: BTreeSet<String>,
    cancelled: BTreeSet<String>,
}

impl Steering {
    /// A server with these actions, which asks often.
    pub(crate) async fn server(&self, cluster: &TestCluster) -> Server {
        Server::start_with_actions(cluster.clone(), hasty(settings(cluster)), self.actions()).await
    }

    /// The same where backups that only have to be finalized stay as they are.
    pub(crate) async fn server_without_finalizer(&self, cluster: &TestCluster) -> Server {
        let disable_controllers = [Controller::BackupFinalizer].into();
        let settings = Settings { disable_controllers, ..hasty(settings(cluster)) };
        Server::start_with_actions(cluster.clone(), settings, self.actions()).await
    }

    pub(crate) fn actions(&self) -> Actions {
        let source = ActionSource {
            backup_item: vec![Arc::new(Steered { steering: self.clone() })],
            restore_item: vec![Arc::new(Steered { steering: self.clone() })],
            ..ActionSource::default()
        };
        Actions::from_source(source).unwrap()
    }

    /// The operations that were started for an owner.
    pub(crate) fn started(&self, owner: &str) -> BTreeSet<String> {
        let state = self.state.lock().unwrap();
        state.started.iter().filter(|id| is_of(id, owner)).cloned().collect()
    }

    /// The operations of an owner that were cancelled.
    pub(crate) fn cancelled(&self, owner: &str) -> BTreeSet<String> {
        let state = self.state.lock().unwrap();
        state.cancelled.iter().filter(|id| is_of(id, owner)).cloned().collect()
    }

    /// How often an owner's operations were asked about.
    pub(crate) fn asked(&self, owner: &str) -> u32 {
        let state = self.state.lock().unwrap();
        state.asked.iter().filter(|(id, _)| is_of(id, owner)).map(|(_, count)| *count).sum()
    }

    fn begin(&self, owner: &str, item: &Value, course: &str) -> Result<String> {
        if course == "refused" {
            return Err(Error::Failed("the item asked for a refusal".to_owned()));
        }
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        let id = format!("{owner}/{course}/{name}");
        self.state.lock().unwrap().started.insert(id.clone());
        Ok(id)
    }

    fn progress(&self, action: &str, id: &str) -> Result<OperationProgress> {
        let (asked, is_cancelled) = {
            let mut state = self.state.lock().unwrap();
            let is_cancelled = state.cancelled.contains(id);
            let asked = state.asked.entry(id.to_owned()).or_default();
            *asked += 1;
            (*asked, is_cancelled)
        };
        let course = id.split('/').nth(1).unwrap_or_default();
        let (kind, limit) = course.split_once('=').unwrap_or((course, "0"));
        let limit: u32 = limit.parse().unwrap();
        let mut progress = OperationProgress {
            n_completed: i64::from(asked.min(limit)),
            n_total: i64::from(limit),
            operation_units: "questions".to_owned(),
            started: Some(Timestamp::now()),
            ..OperationProgress::default()
        };
        match kind {
            "unknown" => {
                let (action, operation_id) = (action.to_owned(), id.to_owned());
                return Err(Error::InvalidOperationId { action, operation_id });
            }
            "unsupported" => return Err(Error::AsyncOperationsNotSupported { action: action.to_owned() }),
            "errs" if asked >= limit => return Err(Error::Failed("nobody answers".to_owned())),
            "fails" if asked >= limit => {
                progress.completed = true;
                progress.error = "no space left".to_owned();
            }
            "takes" if asked >= limit => progress.completed = true,
            _ if is_cancelled => {
                progress.completed = true;
                progress.error = "cancelled".to_owned();
            }
            _ => {}
        }
        Ok(progress)
    }

    fn cancel(&self, id: &str) {
        self.state.lock().unwrap().cancelled.insert(id.to_owned());
    }
}

fn is_of(id: &str, owner: &str) -> bool {
    id.split('/').next() == Some(owner)
}

struct Steered {
    steering: Steering,
}

fn annotation<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.pointer("/metadata/annotations")?.get(key)?.as_str()
}

#[async_trait]
impl BackupItemAction for Steered {
    fn name(&self) -> &str {
        BACKUP_ACTION
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["configmaps"]))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let Some(course) = annotation(item, BACKUP_ACTION) else { return Ok(BackupItemOutcome::default()) };
        let owner = backup.metadata.name.as_deref().unwrap();
        let operation_id = Some(self.steering.begin(owner, item, course)?);
        if let Some(seconds) = annotation(item, SLOWLY) {
            tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await;
        }
        let namespace = item["metadata"]["namespace"].as_str().unwrap_or_default();
        let update = |name: &str| ResourceIdentifier {
            resource: "configmaps".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ResourceIdentifier::default()
        };
        let items_to_update = annotation(item, UPDATE).map(update).into_iter().collect();
        Ok(BackupItemOutcome { operation_id, items_to_update, ..BackupItemOutcome::default() })
    }

    async fn progress(&self, id: &str, _: &Backup) -> Result<OperationProgress> {
        self.steering.progress(BACKUP_ACTION, id)
    }

    async fn cancel(&self, id: &str, _: &Backup) -> Result<()> {
        self.steering.cancel(id);
        Ok(())
    }
}

#[async_trait]
impl RestoreItemAction for Steered {
    fn name(&self) -> &str {
        RESTORE_ACTION
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["configmaps"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let Some(course) = annotation(input.item, RESTORE_ACTION) else { return Ok(RestoreItemOutcome::default()) };
        let owner = input.restore.metadata.name.as_deref().unwrap();
        let operation_id = Some(self.steering.begin(owner, input.item, course)?);
        if let Some(seconds) = annotation(input.item, SLOWLY) {
            tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await;
        }
        Ok(RestoreItemOutcome { operation_id, ..RestoreItemOutcome::default() })
    }

    async fn progress(&self, id: &str, _: &Restore) -> Result<OperationProgress> {
        self.steering.progress(RESTORE_ACTION, id)
    }

    async fn cancel(&self, id: &str, _: &Restore) -> Result<()> {
        self.steering.cancel(id);
        Ok(())
    }
}

/// A namespace whose ConfigMaps start operations.
pub(crate) struct Courses {
    pub(crate) namespace: String,
    cluster: TestCluster,
}

impl Courses {
    /// One ConfigMap a course; `action` says when the operation starts.
    pub(crate) async fn new(cluster: &TestCluster, action: &str, courses: &[&str]) -> Self {
        let namespace = unique_name("courses");
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        let made = Self { namespace, cluster: cluster.clone() };
        for (number, course) in courses.iter().enumerate() {
            made.add(&format!("item-{number}"), json!({action: course})).await;
        }
        made
    }

    /// Adds a ConfigMap with annotations.
    pub(crate) async fn add(&self, name: &str, annotations: Value) {
        let object = json!({"metadata": {"name": name, "annotations": annotations}, "data": {"state": "old"}});
        self.config_maps().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Adds a ConfigMap whose operation asks for another to be stored again.
    pub(crate) async fn add_updating(&self, name: &str, course: &str, updated: &str) {
        self.add(name, json!({BACKUP_ACTION: course, UPDATE: updated})).await;
    }

    /// Adds a ConfigMap whose backup lasts after its operation has started.
    pub(crate) async fn add_slow(&self, name: &str, course: &str, seconds: u32) {
        self.add(name, json!({BACKUP_ACTION: course, SLOWLY: seconds.to_string()})).await;
    }

    /// Adds a ConfigMap whose restore lasts after its operation has started.
    pub(crate) async fn add_slowly_restored(&self, name: &str, course: &str, seconds: u32) {
        self.add(name, json!({RESTORE_ACTION: course, SLOWLY: seconds.to_string()})).await;
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client.clone(), &self.namespace)
    }

    pub(crate) fn spec(&self) -> BackupSpec {
        BackupSpec { included_namespaces: vec![self.namespace.clone()], ..BackupSpec::default() }
    }

    pub(crate) async fn delete(self) {
        delete_namespace(&self.cluster, &self.namespace).await;
    }
}

/// The phases every object of a kind passes through, as a watcher sees them.
pub(crate) struct PhaseWatch {
    seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    task: JoinHandle<()>,
}

impl PhaseWatch {
    pub(crate) fn start<K: VeleroResource>(
        cluster: &TestCluster,
        phase: impl Fn(&K) -> String + Send + 'static,
    ) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, Vec<String>>>> = Arc::default();
        let (api, taken) = (api::<K>(cluster), seen.clone());
        let task = tokio::spawn(async move {
            let mut changes = watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
            while let Some(Ok(object)) = changes.next().await {
                let (name, phase) = (object.meta().name.clone().unwrap(), phase(&object));
                let mut seen = taken.lock().unwrap();
                let phases = seen.entry(name).or_default();
                let begun = !matches!(phase.as_str(), "New" | "Queued" | "ReadyToStart");
                if begun && phases.last() != Some(&phase) {
                    phases.push(phase);
                }
            }
        });
        Self { seen, task }
    }

    /// What was seen of one object, once its last phase is among it.
    pub(crate) async fn of(&self, name: &str, last: &str) -> Vec<String> {
        for _ in 0..100 {
            let seen = self.seen.lock().unwrap().get(name).cloned().unwrap_or_default();
            if seen.last().is_some_and(|phase| phase == last) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.seen.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

impl Drop for PhaseWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
