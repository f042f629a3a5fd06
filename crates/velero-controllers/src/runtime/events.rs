//! Events: what people should hear of who look at an object.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use velero_api::metadata::name;
use velero_api::resource::VeleroResource;
use velero_rules::events::Told;

use crate::runtime::context::Context;
use crate::runtime::controller::Controller;

/// How long an Event may take: it is worth a try, and nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells something about an object beside the work. When the server ends, it waits a moment for what is not told yet.
pub(crate) fn tell<K: VeleroResource>(context: &Context, object: &K, controller: Controller, told: Told) {
    let (client, reference) = (context.objects.cluster().client().clone(), object.object_ref(&()));
    let object = name(object).to_owned();
    let reporter = format!("velero-{}", controller.name());
    context.events.spawn(async move {
        let reason = told.reason.clone();
        let published = tokio::time::timeout(PATIENCE, publish(client, &reference, reporter, told, "Reconcile")).await;
        let problem = match published {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the API server has not answered within {PATIENCE:?}"),
        };
        tracing::warn!(kind = K::KIND, name = object, reason, problem, "An event could not be written");
    });
}

/// Writes a warning about an object; one that cannot be written is told in the log.
pub(crate) async fn warn<K: VeleroResource>(
    context: &Context,
    object: &K,
    controller: &str,
    reason: &str,
    action: &str,
    note: String,
) {
    let client = context.objects.cluster().client().clone();
    let told = Told::warning(reason, note);
    if let Err(error) = publish(client, &object.object_ref(&()), controller.to_owned(), told, action).await {
        tracing::warn!(kind = K::KIND, name = name(object), reason, %error, "An event could not be written");
    }
}

async fn publish(
    client: Client,
    reference: &ObjectReference,
    controller: String,
    told: Told,
    action: &str,
) -> Result<(), kube::Error> {
    let recorder = Recorder::new(client, Reporter { controller, instance: None });
    let event = Event {
        type_: if told.is_warning { EventType::Warning } else { EventType::Normal },
        reason: told.reason,
        note: Some(told.note),
        action: action.to_owned(),
        secondary: None,
    };
    recorder.publish(&event, reference).await
}
