//! Objects that carry a label, followed by one watch for all who wait for one of them.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use velero_api::with_causes;
use velero_cluster::{Cluster, ItemRef, ResourceType, Seen};
use velero_plugin::item;

/// A namespace and a name in it.
type Place = (String, String);

/// What is known of the objects. What a waiter needs of each is read once, when it is seen.
struct Known<T> {
    /// `None` is an object that is gone.
    objects: HashMap<Place, Option<T>>,
    /// How often the watch has begun: what was not listed then may be gone.
    beginnings: u64,
    /// Why nothing more is seen.
    failed: Option<String>,
}

/// Why an object did not become what was waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotSeen<T> {
    /// It is gone.
    Gone,
    /// The time is over; what was seen of it last.
    Late(Option<T>),
    /// Nobody can tell.
    Unknown(String),
}

/// Objects of one type that carry a label.
pub(super) struct Followed<T> {
    cluster: Cluster,
    resource_type: ResourceType,
    namespace: Option<String>,
    selector: String,
    read: fn(&Value) -> T,
    known: Arc<watch::Sender<Known<T>>>,
    watching: OnceLock<AbortOnDropHandle<()>>,
}

impl<T: Clone + Send + Sync + 'static> Followed<T> {
    /// Follows nothing yet. Without a namespace those of all are followed.
    pub(super) fn new(
        cluster: &Cluster,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        selector: String,
        read: fn(&Value) -> T,
    ) -> Self {
        let known = Known { objects: HashMap::new(), beginnings: 0, failed: None };
        Self {
            cluster: cluster.clone(),
            resource_type: resource_type.clone(),
            namespace: namespace.map(str::to_owned),
            selector,
            read,
            known: Arc::new(watch::Sender::new(known)),
            watching: OnceLock::new(),
        }
    }

    /// Begins to follow; to be called before the first object is made, so that none can come and go unseen.
    pub(super) fn begin(&self) {
        self.watching.get_or_init(|| {
            let seen = self.cluster.watch_labelled(&self.resource_type, self.namespace.as_deref(), &self.selector);
            let (known, read) = (Arc::clone(&self.known), self.read);
            AbortOnDropHandle::new(tokio::spawn(async move {
                let mut seen = pin!(seen);
                while let Some(seen) = seen.next().await {
                    known.send_modify(|known| match seen {
                        Ok(seen) => known.take_in(seen, read),
                        Err(error) => known.failed = Some(with_causes(&error)),
                    });
                }
                known.send_modify(|known| _ = known.failed.get_or_insert_with(|| "the watch ended".to_owned()));
            }))
        });
    }

    /// What was seen last of an object.
    pub(super) fn last(&self, namespace: &str, name: &str) -> Option<T> {
        self.known.borrow().objects.get(&(namespace.to_owned(), name.to_owned())).cloned().flatten()
    }

    /// Waits until an object is as wanted, for no longer than `deadline`.
    pub(super) async fn until(
        &self,
        (namespace, name): (&str, &str),
        deadline: Instant,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T, NotSeen<T>> {
        let mut news = self.known.subscribe();
        let mut looked_at = news.borrow().beginnings;
        let place = (namespace.to_owned(), name.to_owned());
        loop {
            let (seen, beginnings, failed) = {
                let known = news.borrow_and_update();
                (known.objects.get(&place).cloned(), known.beginnings, known.failed.clone())
            };
            if let Some(failed) = failed {
                return Err(NotSeen::Unknown(failed));
            }
            let is_doubtful = matches!(seen, Some(None)) || (seen.is_none() && beginnings != looked_at);
            let seen = match seen.flatten() {
                None if is_doubtful => {
                    looked_at = beginnings;
                    Some(self.look(namespace, name).await?)
                }
                seen => seen,
            };
            match seen {
                Some(seen) if is_wanted(&seen) => return Ok(seen),
                _ => {}
            }
            match tokio::time::timeout_at(deadline, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(NotSeen::Unknown("the watch ended".to_owned())),
                Err(_) => return Err(NotSeen::Late(self.last(namespace, name))),
            }
        }
    }

    /// Asks for an object of which the watch does not tell.
    async fn look(&self, namespace: &str, name: &str) -> Result<T, NotSeen<T>> {
        match self.cluster.get(ItemRef::new(&self.resource_type, Some(namespace), name)).await {
            Ok(Some(object)) => Ok((self.read)(&object)),
            Ok(None) => Err(NotSeen::Gone),
            Err(error) => Err(NotSeen::Unknown(with_causes(&error))),
        }
    }
}

impl<T> Known<T> {
    fn take_in(&mut self, seen: Seen, read: fn(&Value) -> T) {
        match seen {
            Seen::All(objects) => {
                self.objects.values_mut().for_each(|known| *known = None);
                self.objects.extend(objects.iter().map(|object| (place(object), Some(read(object)))));
                self.beginnings += 1;
            }
            Seen::Changed(object) => _ = self.objects.insert(place(&object), Some(read(&object))),
            Seen::Gone(object) => _ = self.objects.insert(place(&object), None),
        }
    }
}

fn place(object: &Value) -> Place {
    (item::namespace(object).to_owned(), item::name(object).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, phase: &str) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name}, "status": {"phase": phase}})
    }

    fn phase(object: &Value) -> String {
        item::text(object, "/status/phase").to_owned()
    }

    #[test]
    fn what_a_new_list_does_not_have_is_gone() {
        let mut known = Known { objects: HashMap::new(), beginnings: 0, failed: None };
        known.take_in(Seen::All(vec![object("a", "New"), object("b", "New")]), phase);
        known.take_in(Seen::Changed(object("c", "New")), phase);
        known.take_in(Seen::Gone(object("a", "New")), phase);
        known.take_in(Seen::All(vec![object("c", "Done")]), phase);
        let seen = |name: &str| known.objects.get(&("shop".to_owned(), name.to_owned())).cloned();
        assert_eq!((seen("a"), seen("b")), (Some(None), Some(None)));
        assert_eq!((seen("c"), seen("d")), (Some(Some("Done".to_owned())), None));
        assert_eq!(known.beginnings, 2);
    }
}
