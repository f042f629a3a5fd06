//! Events: what people should hear of who look at an object.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use velero_api::metadata::name;
use velero_api::resource::VeleroResource;

use crate::runtime::context::Context;

/// Writes a warning about an object; one that cannot be written is told in the log.
pub(crate) async fn warn<K: VeleroResource>(
    context: &Context,
    object: &K,
    controller: &str,
    reason: &str,
    action: &str,
    note: String,
) {
    let reporter = Reporter { controller: controller.to_owned(), instance: None };
    let recorder = Recorder::new(context.objects.cluster().client().clone(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
        tracing::warn!(kind = K::KIND, name = name(object), reason, %error, "An event could not be written");
    }
}
