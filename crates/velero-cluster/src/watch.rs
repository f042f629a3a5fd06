//! Watching the objects of a type that carry certain labels.

use futures::{Stream, StreamExt, stream};
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::resource_type::ResourceType;
use crate::wait::fatal;
use crate::watched::watched;

/// What a watch has seen.
#[derive(Debug)]
pub enum Seen {
    /// All objects there are: the watch begins, or begins again after an interruption. What it knew and what is not here
    /// is gone.
    All(Vec<Value>),
    /// An object is new, or has changed.
    Changed(Value),
    /// An object is gone.
    Gone(Value),
}

impl Cluster {
    /// Watches the objects of a type that a label selector names, of one namespace or of all. A passing trouble is
    /// waited out; after an error, such as a missing permission, the stream ends.
    pub fn watch_labelled(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        label_selector: &str,
    ) -> impl Stream<Item = Result<Seen>> + Send + use<> {
        let resource = resource_type.api_resource();
        let api: Api<DynamicObject> = match namespace.filter(|_| resource_type.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client().clone(), namespace, &resource),
            None => Api::all_with(self.client().clone(), &resource),
        };
        let action = format!("watch {}", resource_type.group_resource());
        let events = watched(api, watcher::Config::default().labels(label_selector));
        let state = Some((events.boxed(), Vec::new(), action));
        stream::unfold(state, async |state| {
            let (mut events, mut listed, action) = state?;
            loop {
                let seen = match events.next().await? {
                    Ok(event) => take_in(event, &mut listed, &action),
                    Err(error) => match fatal(error) {
                        Some(error) => Err(Error::from_kube(action.clone(), error)),
                        None => continue,
                    },
                };
                match seen {
                    Ok(None) => {}
                    Ok(Some(seen)) => return Some((Ok(seen), Some((events, listed, action)))),
                    Err(error) => return Some((Err(error), None)),
                }
            }
        })
    }
}

/// Makes of an event what there is to tell; a list is told when it is complete.
fn take_in(event: Event<DynamicObject>, listed: &mut Vec<Value>, action: &str) -> Result<Option<Seen>> {
    let value = |object: DynamicObject| {
        let unreadable =
            |error: serde_json::Error| Error::Unreadable { action: action.to_owned(), source: error.into() };
        serde_json::to_value(object).map_err(unreadable)
    };
    Ok(match event {
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(object) => {
            listed.push(value(object)?);
            None
        }
        Event::InitDone => Some(Seen::All(std::mem::take(listed))),
        Event::Apply(object) => Some(Seen::Changed(value(object)?)),
        Event::Delete(object) => Some(Seen::Gone(value(object)?)),
    })
}
