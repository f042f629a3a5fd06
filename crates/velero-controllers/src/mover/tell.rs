//! Events on the object that asks for the transfer: what a node agent, and people, hear of it while it runs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::timeout;
use velero_api::metadata::name;
use velero_api::records::{DATA_PATH_PROGRESS, DataPathProgress};
use velero_cluster::Error as ClusterError;

use crate::mover::kind::Transferred;
use crate::runtime::clock;
use crate::runtime::error::describe;
use crate::runtime::objects::Objects;

/// How long an Event may take to be written: data moves on without it, and the end is also told in another way.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest message; results are far shorter.
const MOST_LETTERS: usize = 1024;

/// Why an Event was not written.
#[derive(Debug, thiserror::Error)]
enum Unwritten {
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Nobody waits for it any more.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TooLate,
}

/// Writes Events.
pub(super) struct Teller {
    api: Api<Event>,
    /// The Event without what it says.
    blank: Event,
    /// The Event that tells how far it is, and how often it did: it is changed, so that there is one of it.
    progress: Option<(String, i32)>,
}

impl Teller {
    pub(super) fn new<K: Transferred>(objects: &Objects, object: &K, node: &str) -> Self {
        let metadata = ObjectMeta { namespace: Some(objects.namespace().to_owned()), ..ObjectMeta::default() };
        let (component, host) = (Some(name(object).to_owned()), Some(node.to_owned()).filter(|node| !node.is_empty()));
        let blank = Event {
            metadata,
            involved_object: object.object_ref(&()),
            type_: Some("Normal".to_owned()),
            reporting_component: component.clone(),
            reporting_instance: host.clone(),
            source: Some(EventSource { component, host }),
            ..Event::default()
        };
        let api = Api::namespaced(objects.cluster().client().clone(), objects.namespace());
        Self { api, blank, progress: None }
    }

    /// Writes an Event; one that cannot be written is told in the log.
    pub(super) async fn tell(&self, reason: &str, message: &str) {
        if let Err(error) = in_time(self.create(reason, message)).await {
            log_failure(reason, &error);
        }
    }

    /// Tells how far it is.
    pub(super) async fn tell_progress(&mut self, progress: &DataPathProgress) {
        let message = serde_json::to_string(progress).unwrap_or_default();
        let written = in_time(async {
            if let Some((name, count)) = self.progress.clone() {
                match self.change(&name, count + 1, &message).await {
                    Ok(()) => {
                        self.progress = Some((name, count + 1));
                        return Ok(());
                    }
                    // Events go after an hour.
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
            }
            self.progress = Some((self.create(DATA_PATH_PROGRESS, &message).await?, 1));
            Ok(())
        });
        if let Err(error) = written.await {
            log_failure(DATA_PATH_PROGRESS, &error);
        }
    }

    async fn create(&self, reason: &str, message: &str) -> Result<String, ClusterError> {
        let mut event = self.blank.clone();
        let of = event.involved_object.name.clone().unwrap_or_default();
        let event_name = format!("{of}.{}", uuid::Uuid::new_v4().simple());
        event.metadata.name = Some(event_name.clone());
        event.reason = Some(reason.to_owned());
        event.message = Some(message.chars().take(MOST_LETTERS).collect());
        (event.first_timestamp, event.last_timestamp) = (Some(clock::now_time()), Some(clock::now_time()));
        event.count = Some(1);
        let created = self.api.create(&PostParams::default(), &event).await;
        created.map_err(|error| ClusterError::from_kube(format!("create event {reason}"), error))?;
        Ok(event_name)
    }

    async fn change(&self, event: &str, count: i32, message: &str) -> Result<(), ClusterError> {
        let patch = json!({"message": message, "count": count, "lastTimestamp": clock::now_time()});
        let changed = self.api.patch(event, &PatchParams::default(), &Patch::Merge(patch)).await;
        changed.map_err(|error| ClusterError::from_kube(format!("patch event {event}"), error))?;
        Ok(())
    }
}

async fn in_time<T>(written: impl Future<Output = Result<T, ClusterError>>) -> Result<T, Unwritten> {
    Ok(timeout(PATIENCE, written).await.map_err(|_| Unwritten::TooLate)??)
}

fn log_failure(reason: &str, error: &Unwritten) {
    tracing::warn!(reason, error = describe(error), "An event could not be written");
}
