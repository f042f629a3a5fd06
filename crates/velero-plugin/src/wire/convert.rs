//! Between the messages of the protocol and our types.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use velero_api::records::ResourceIdentifier;

use super::generated;
use crate::{OperationProgress, ResourceSelector};

/// An object as it travels. What can be in a custom resource or a JSON value can always be written.
pub(crate) fn json_bytes<T: serde::Serialize>(object: &T) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(object).map(Bytes::from)
}

pub(crate) fn selector_from(selector: Option<generated::ResourceSelector>) -> ResourceSelector {
    let selector = selector.unwrap_or_default();
    ResourceSelector {
        included_namespaces: selector.included_namespaces,
        excluded_namespaces: selector.excluded_namespaces,
        included_resources: selector.included_resources,
        excluded_resources: selector.excluded_resources,
        label_selector: selector.selector,
    }
}

pub(crate) fn selector_to(selector: ResourceSelector) -> generated::ResourceSelector {
    generated::ResourceSelector {
        included_namespaces: selector.included_namespaces,
        excluded_namespaces: selector.excluded_namespaces,
        included_resources: selector.included_resources,
        excluded_resources: selector.excluded_resources,
        selector: selector.label_selector,
    }
}

pub(crate) fn identifier_from(item: generated::ResourceIdentifier) -> ResourceIdentifier {
    ResourceIdentifier { group: item.group, resource: item.resource, namespace: item.namespace, name: item.name }
}

pub(crate) fn identifier_to(item: ResourceIdentifier) -> generated::ResourceIdentifier {
    generated::ResourceIdentifier {
        group: item.group,
        resource: item.resource,
        namespace: item.namespace,
        name: item.name,
    }
}

pub(crate) fn progress_from(progress: generated::OperationProgress) -> OperationProgress {
    OperationProgress {
        completed: progress.completed,
        error: progress.err,
        n_completed: progress.n_completed,
        n_total: progress.n_total,
        operation_units: progress.operation_units,
        description: progress.description,
        started: time_from(progress.started),
        updated: time_from(progress.updated),
    }
}

pub(crate) fn progress_to(progress: OperationProgress) -> generated::OperationProgress {
    generated::OperationProgress {
        completed: progress.completed,
        err: progress.error,
        n_completed: progress.n_completed,
        n_total: progress.n_total,
        operation_units: progress.operation_units,
        description: progress.description,
        started: progress.started.map(time_to),
        updated: progress.updated.map(time_to),
    }
}

/// A plugin in Go that does not know a time sends the beginning of its calendar, or of 1970.
fn time_from(time: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let time = time.filter(|time| time.seconds > 0)?;
    Timestamp::new(time.seconds, time.nanos).ok()
}

fn time_to(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

/// No time and less than none mean the server's default.
pub(crate) fn from_duration(duration: Option<prost_types::Duration>) -> Option<Duration> {
    duration.and_then(|duration| Duration::try_from(duration).ok()).filter(|duration| !duration.is_zero())
}

pub(crate) fn to_duration(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_survives_the_way_there_and_back() {
        let progress = OperationProgress {
            completed: true,
            error: "disk full".to_owned(),
            n_completed: 3,
            n_total: 5,
            operation_units: "Bytes".to_owned(),
            description: "uploading".to_owned(),
            started: Some("2026-01-02T03:04:05.000000006Z".parse().unwrap()),
            updated: None,
        };
        assert_eq!(progress_from(progress_to(progress.clone())), progress);
    }

    #[test]
    fn a_time_at_the_beginning_of_a_calendar_is_no_time() {
        for seconds in [-62_135_596_800, 0] {
            assert_eq!(time_from(Some(prost_types::Timestamp { seconds, nanos: 0 })), None, "{seconds}");
        }
        assert_eq!(time_from(None), None);
    }

    #[test]
    fn a_wait_of_no_time_means_the_default() {
        assert_eq!(from_duration(Some(prost_types::Duration { seconds: 0, nanos: 0 })), None);
        assert_eq!(from_duration(Some(prost_types::Duration { seconds: -1, nanos: 0 })), None);
        assert_eq!(from_duration(to_duration(Duration::from_millis(1500))), Some(Duration::from_millis(1500)));
    }
}
