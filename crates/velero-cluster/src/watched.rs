//! Watches of kube's client, which are begun anew where they cannot go on.

use std::fmt::Debug;

use futures::{Stream, StreamExt, future, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Watches objects for ever. A watch that is refused since it can no longer go on where it stood is begun anew, with a list: the
/// library would ask for the same place again and again.
pub fn watched<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    begun_anew(move || watcher(api.clone(), config.clone()))
}

/// Watches one object for ever, in the same way: its state whenever that changes, `None` while it does not exist.
pub fn watched_object<K>(api: Api<K>, name: &str) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let name = name.to_owned();
    begun_anew(move || watch_object(api.clone(), &name))
}

fn begun_anew<T, S>(begin: impl FnMut() -> S + Send) -> impl Stream<Item = watcher::Result<T>> + Send
where
    T: Send,
    S: Stream<Item = watcher::Result<T>> + Send,
{
    stream::repeat_with(begin).flat_map(|watch| until_gone(watch.default_backoff()))
}

/// The events of a watch until it cannot go on where it stood. What comes next is waited for, so that a new watch keeps the pause
/// that the old one would have kept; it is no loss, for a list follows.
fn until_gone<T>(events: impl Stream<Item = watcher::Result<T>> + Send) -> impl Stream<Item = watcher::Result<T>> + Send
where
    T: Send,
{
    events.scan(false, |is_gone, event| {
        let passed = (!*is_gone).then_some(event);
        *is_gone = passed.as_ref().is_some_and(is_of_gone);
        future::ready(passed)
    })
}

fn is_of_gone<T>(event: &watcher::Result<T>) -> bool {
    matches!(event, Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_go_on_where_it_stood_is_begun_anew_and_others_go_on() {
        let refused = |code| {
            let status = Status::failure("no", "").with_code(code);
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status))))
        };
        let first = vec![Ok(1), refused(500), Ok(2), refused(410), Ok(3)];
        let mut watches = vec![vec![Ok(4), Ok(5)], first];
        let events = begun_anew(move || stream::iter(watches.pop().unwrap_or_default()));
        let seen = events.map(|event: watcher::Result<u8>| event.unwrap_or(0));
        assert_eq!(seen.take(6).collect::<Vec<u8>>().await, [1, 0, 2, 0, 4, 5]);
    }
}
