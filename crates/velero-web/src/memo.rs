//! What was made last, for all who ask for the same: a change that many open pages follow is written down once.

use std::sync::{Arc, Mutex, PoisonError};

use maud::{Markup, PreEscaped};
use tokio::sync::OnceCell;

use crate::problem::Problem;

/// Markup that several pages share.
pub(crate) type SharedMarkup = PreEscaped<Arc<str>>;

/// What was made, or is being made.
type Made = Arc<OnceCell<Arc<str>>>;

/// The last thing that was made, and what it was made for.
pub(crate) struct Memo<K> {
    last: Mutex<Option<(K, Made)>>,
}

impl<K> Default for Memo<K> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl<K: PartialEq> Memo<K> {
    /// What was made for this key; else it is made now, and who asks for the same meanwhile waits for it. Who asks for
    /// something else does not.
    pub(crate) async fn get(
        &self,
        key: K,
        make: impl Future<Output = Result<Markup, Problem>>,
    ) -> Result<SharedMarkup, Problem> {
        let made = self.place_of(key);
        let make = async { Ok::<Arc<str>, Problem>(make.await?.into_string().into()) };
        let text = made.get_or_try_init(|| make).await?;
        Ok(PreEscaped(Arc::clone(text)))
    }

    fn place_of(&self, key: K) -> Made {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, made)) = last.as_ref()
            && *known == key
        {
            return Arc::clone(made);
        }
        let made = Made::default();
        *last = Some((key, Arc::clone(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use maud::html;

    use super::*;

    #[tokio::test]
    async fn what_many_ask_for_is_made_once_and_anew_when_something_changed() {
        let (memo, made) = (Memo::default(), AtomicUsize::new(0));
        let ask = async |version: u64| {
            let make = async {
                made.fetch_add(1, Ordering::SeqCst);
                Ok(html! { "version " (version) })
            };
            memo.get(version, make).await.map(|markup| markup.0.to_string())
        };
        for _ in 0..50 {
            assert_eq!(ask(1).await.as_deref(), Ok("version 1"));
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert_eq!(ask(2).await.as_deref(), Ok("version 2"));
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_asks_for_something_else_does_not_wait_for_what_takes_long() {
        let memo = Memo::default();
        let slow = memo.get(1, std::future::pending());
        let quick = async {
            tokio::task::yield_now().await;
            memo.get(2, async { Ok(html! { "quick" }) }).await.map(|markup| markup.0)
        };
        tokio::select! {
            _ = slow => panic!("it never ends"),
            quick = quick => assert_eq!(quick.as_deref(), Ok("quick")),
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_who_has_given_up() {
        let memo = Memo::default();
        let given_up = tokio::time::timeout(Duration::ZERO, memo.get(1, std::future::pending())).await;
        assert!(given_up.is_err());
        let made = memo.get(1, async { Ok(html! { "there" }) }).await.map(|markup| markup.0);
        assert_eq!(made.as_deref(), Ok("there"));
    }

    #[tokio::test]
    async fn what_could_not_be_made_is_tried_again() {
        let memo = Memo::default();
        let failed = memo.get(1, async { Err(Problem::Late) }).await.map(|markup| markup.0);
        assert_eq!(failed, Err(Problem::Late));
        let made = memo.get(1, async { Ok(html! { "there" }) }).await.map(|markup| markup.0);
        assert_eq!(made.as_deref(), Ok("there"));
    }
}
