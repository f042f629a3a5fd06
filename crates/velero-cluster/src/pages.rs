//! Typed lists of any length, page by page, for those who want all of it.

use std::fmt::Debug;

use kube::api::{Api, ListParams, ObjectList, PartialObjectMeta};
use serde::de::DeserializeOwned;

/// How many objects a page has, unless the parameters say so.
const PAGE: u32 = 500;
/// The pages before are too old to be continued.
const EXPIRED: u16 = 410;

/// All objects that a list names.
pub async fn list_all<K>(api: &Api<K>, parameters: &ListParams) -> Result<ObjectList<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    gathered(parameters, |next| async move { api.list(&next).await }, |item| item).await
}

/// What is kept of all objects that a list names: of the objects themselves a page is in memory at a time.
pub async fn list_kept<K, F>(
    api: &Api<K>,
    parameters: &ListParams,
    keep: impl Fn(K) -> F,
) -> Result<Vec<F>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    F: Clone,
{
    let whole = gathered(parameters, |next| async move { api.list(&next).await }, keep).await?;
    Ok(whole.items)
}

/// The metadata of all objects that a list names.
pub async fn list_all_metadata<K>(
    api: &Api<K>,
    parameters: &ListParams,
) -> Result<ObjectList<PartialObjectMeta<K>>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    gathered(parameters, |next| async move { api.list_metadata(&next).await }, |item| item).await
}

/// Asks for page after page and keeps of each what is wanted.
async fn gathered<A, F, Asked>(
    parameters: &ListParams,
    ask: impl Fn(ListParams) -> Asked,
    keep: impl Fn(A) -> F,
) -> Result<ObjectList<F>, kube::Error>
where
    A: Clone,
    F: Clone,
    Asked: Future<Output = Result<ObjectList<A>, kube::Error>>,
{
    let (mut position, mut kept) = (Position::new(parameters, PAGE), Vec::new());
    loop {
        match ask(position.next.clone()).await {
            Ok(ObjectList { types, mut metadata, items }) => {
                kept.extend(items.into_iter().map(&keep));
                if !position.advance(metadata.continue_.take()) {
                    return Ok(ObjectList { types, metadata, items: kept });
                }
            }
            Err(error) => {
                position.restart(error)?;
                kept.clear();
            }
        }
    }
}

/// Where a list stands.
pub(crate) struct Position {
    /// What is to be asked for next.
    pub(crate) next: ListParams,
}

impl Position {
    /// The beginning of a list. Pages have so many objects, unless the parameters say so.
    pub(crate) fn new(parameters: &ListParams, page: u32) -> Self {
        Self { next: ListParams { limit: parameters.limit.or(Some(page)), ..parameters.clone() } }
    }

    /// Goes on behind a page, to where its token leads; false where that was the last one.
    pub(crate) fn advance(&mut self, token: Option<String>) -> bool {
        self.next.continue_token = token.filter(|token| !token.is_empty());
        self.next.continue_token.is_some()
    }

    /// Begins anew where the list expired before its end, with one page that holds all: nothing is missing and nothing
    /// is there twice. Any other error is one.
    pub(crate) fn restart(&mut self, error: kube::Error) -> Result<(), kube::Error> {
        match error {
            kube::Error::Api(status) if status.code == EXPIRED && self.next.continue_token.is_some() => {
                self.next.limit = None;
                self.next.continue_token = None;
                Ok(())
            }
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube::core::{ListMeta, Status};

    use super::*;

    type Answer = Result<ObjectList<u8>, kube::Error>;
    /// The token and the limit of a question.
    type Asked = (Option<String>, Option<u32>);

    fn page(items: &[u8], token: &str) -> Answer {
        let metadata = ListMeta { continue_: Some(token.to_owned()), ..ListMeta::default() };
        Ok(ObjectList { types: Default::default(), metadata, items: items.to_vec() })
    }

    fn expired() -> Answer {
        Err(kube::Error::Api(Box::new(Status { code: EXPIRED, ..Status::default() })))
    }

    /// What comes of these answers, and what was asked for.
    async fn collected(answers: Vec<Answer>) -> (Option<Vec<u8>>, Vec<Asked>) {
        let (answers, asked) = (RefCell::new(answers.into_iter()), RefCell::new(Vec::new()));
        let ask = |next: ListParams| {
            asked.borrow_mut().push((next.continue_token, next.limit));
            let answer = answers.borrow_mut().next().expect("it asks on");
            async move { answer }
        };
        let whole = gathered(&ListParams::default(), ask, |item| item).await;
        (whole.ok().map(|whole| whole.items), asked.into_inner())
    }

    #[tokio::test]
    async fn pages_follow_each_other_and_a_list_that_expired_is_read_anew_and_whole() {
        let token = |text: &str| Some(text.to_owned());
        let whole = collected(vec![page(&[1, 2], "a"), page(&[3], "")]).await;
        assert_eq!(whole, (Some(vec![1, 2, 3]), vec![(None, Some(PAGE)), (token("a"), Some(PAGE))]));
        let anew = collected(vec![page(&[1, 2], "a"), expired(), page(&[1, 3, 4], "")]).await;
        assert_eq!(anew.0, Some(vec![1, 3, 4]));
        assert_eq!(anew.1.last(), Some(&(None, None)));
        assert_eq!(collected(vec![expired()]).await.0, None, "a first page that expired is an error");
    }
}
