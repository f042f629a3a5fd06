//! What was made last, for all who ask for the same: a change that many open pages follow is written down once.

use std::sync::Arc;

use maud::{Markup, PreEscaped};
use tokio::sync::Mutex;

use crate::problem::Problem;

/// Markup that several pages share.
pub(crate) type SharedMarkup = PreEscaped<Arc<str>>;

/// The last thing that was made, and what it was made for.
pub(crate) struct Memo<K> {
    last: Mutex<Option<(K, Arc<str>)>>,
}

impl<K> Default for Memo<K> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl<K: PartialEq> Memo<K> {
    /// What was made for this key; else it is made now, and who asks for the same meanwhile waits for it.
    pub(crate) async fn get(
        &self,
        key: K,
        make: impl Future<Output = Result<Markup, Problem>>,
    ) -> Result<SharedMarkup, Problem> {
        let mut last = self.last.lock().await;
        if let Some((known, text)) = last.as_ref()
            && *known == key
        {
            return Ok(PreEscaped(Arc::clone(text)));
        }
        let text: Arc<str> = make.await?.into_string().into();
        *last = Some((key, Arc::clone(&text)));
        Ok(PreEscaped(text))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
    async fn what_could_not_be_made_is_tried_again() {
        let memo = Memo::default();
        let failed = memo.get(1, async { Err(Problem::Late) }).await.map(|markup| markup.0);
        assert_eq!(failed, Err(Problem::Late));
        let made = memo.get(1, async { Ok(html! { "there" }) }).await.map(|markup| markup.0);
        assert_eq!(made.as_deref(), Ok("there"));
    }
}
