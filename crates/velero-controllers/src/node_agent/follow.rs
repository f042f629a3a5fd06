//! What a mover reports while it runs, Events on the object it works for, and what it left in its log.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use tokio_util::task::AbortOnDropHandle;
use velero_api::records::{DATA_PATH_COMPLETED, DATA_PATH_PROGRESS, DataPathProgress};
use velero_cluster::watched;

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
        let mut events = Box::pin(watched(api, config).applied_objects());
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(kind = K::KIND, name, %error, "The reports of a mover cannot be read for now");
                    // It may have moved data all the while.
                    notes.excuse(&name, &uid);
                    continue;
                }
            };
            let is_news = match report(&event, &uid) {
                Some(Report::Progress(progress)) => notes.report(&name, &uid, progress),
                Some(Report::Result(result)) => notes.report_result(&name, &uid, result),
                None => false,
            };
            if is_news {
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

/// What a mover says in an Event.
#[derive(Debug, PartialEq)]
enum Report {
    Progress(DataPathProgress),
    /// All data was moved, and this is what it will leave. Its pod is seen to end a second later only.
    Result(String),
}

/// The report in an Event on the object with that UID.
fn report(event: &Event, uid: &str) -> Option<Report> {
    let message = event.message.as_deref()?;
    match event.reason.as_deref()? {
        _ if event.involved_object.uid.as_deref() != Some(uid) => None,
        DATA_PATH_PROGRESS => serde_json::from_str(message).ok().map(Report::Progress),
        // One that was cut short is read from the pod.
        DATA_PATH_COMPLETED => {
            let is_whole = serde_json::from_str::<serde_json::Map<_, _>>(message).is_ok();
            is_whole.then(|| Report::Result(message.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_results_of_the_object_are_read_and_nothing_else() {
        let event = |reason: &str, message: &str| {
            let mut event = Event { reason: Some(reason.to_owned()), ..Event::default() };
            event.message = Some(message.to_owned());
            event.involved_object.uid = Some("1".to_owned());
            event
        };
        let Some(Report::Progress(read)) =
            report(&event(DATA_PATH_PROGRESS, "{\"totalBytes\":10,\"doneBytes\":7}"), "1")
        else {
            panic!("progress is read")
        };
        assert_eq!((read.total_bytes, read.bytes_done), (10, 7));
        let result = "{\"snapshotID\":\"s\"}";
        let completed = event(DATA_PATH_COMPLETED, result);
        assert_eq!(report(&completed, "1"), Some(Report::Result(result.to_owned())));
        assert_eq!(report(&completed, "2"), None, "another object of the name");
        let others = [("Data-Path-Started", "{}"), (DATA_PATH_PROGRESS, "half"), (DATA_PATH_COMPLETED, "{\"snapsho")];
        for (reason, message) in others {
            assert_eq!(report(&event(reason, message), "1"), None, "{reason} {message}");
        }
        assert_eq!(report(&Event::default(), "1"), None);
    }
}
