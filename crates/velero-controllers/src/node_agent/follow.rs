//! What a mover reports while it runs, Events on the object it works for, and what it left in its log.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use tokio_util::task::AbortOnDropHandle;
use velero_api::records::{DATA_PATH_PROGRESS, DataPathProgress};

use crate::node_agent::agent::Agent;
use crate::node_agent::notes::Notes;
use crate::node_agent::transfer::Transfer;
use crate::node_agent::triggers::Trigger;

/// How much of a mover's log is taken over.
const LOG_LINES: i64 = 40;

/// Notes what the mover of an object reports, for as long as the handle is kept, and has the object looked at.
pub(crate) fn spawn<K: Transfer>(
    agent: &Agent,
    notes: Arc<Notes>,
    trigger: Trigger,
    name: &str,
    uid: &str,
) -> AbortOnDropHandle<()> {
    let api: Api<Event> = Api::namespaced(agent.client(), agent.objects.namespace());
    let about = format!("involvedObject.kind={},involvedObject.name={name}", K::KIND);
    let (name, uid) = (name.to_owned(), uid.to_owned());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let config = watcher::Config::default().fields(&about).page_size(100);
        let mut events = Box::pin(watcher(api, config).default_backoff().applied_objects());
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(kind = K::KIND, name, %error, "The reports of a mover cannot be read for now");
                    continue;
                }
            };
            if let Some(progress) = progress(&event)
                && notes.report(&name, &uid, progress)
            {
                trigger.pull();
            }
        }
    }))
}

/// Takes the end of a mover's log over into that of the agent, before its pod goes.
pub(crate) async fn copy_log<K: Transfer>(agent: &Agent, name: &str) {
    let pods: Api<Pod> = Api::namespaced(agent.client(), agent.objects.namespace());
    let last = LogParams { tail_lines: Some(LOG_LINES), ..LogParams::default() };
    match pods.logs(name, &last).await {
        Ok(text) => {
            text.lines().for_each(|line| tracing::warn!(kind = K::KIND, name, line, "From the log of the mover"))
        }
        Err(error) => tracing::debug!(kind = K::KIND, name, %error, "The log of the mover cannot be read"),
    }
}

fn progress(event: &Event) -> Option<DataPathProgress> {
    let message = event.message.as_deref()?;
    (event.reason.as_deref() == Some(DATA_PATH_PROGRESS)).then(|| serde_json::from_str(message).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_of_progress_are_read() {
        let event = |reason: &str, message: &str| Event {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        };
        let read = progress(&event(DATA_PATH_PROGRESS, "{\"totalBytes\":10,\"doneBytes\":7}")).unwrap();
        assert_eq!((read.total_bytes, read.bytes_done), (10, 7));
        for other in [event("Data-Path-Started", "{}"), event(DATA_PATH_PROGRESS, "half"), Event::default()] {
            assert_eq!(progress(&other), None);
        }
    }
}
