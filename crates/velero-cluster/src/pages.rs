//! Typed lists of any length, page by page, for those who want all of it.

use std::fmt::Debug;

use kube::api::{Api, ListParams, ObjectList, ObjectMeta, PartialObjectMeta};
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

/// What is kept of the metadata of all objects that a list names: of the metadata themselves a page is in memory at a time.
pub async fn list_metadata_kept<K, F>(
    api: &Api<K>,
    parameters: &ListParams,
    keep: impl Fn(ObjectMeta) -> F,
) -> Result<Vec<F>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    F: Clone,
{
    let keep = |item: PartialObjectMeta<K>| keep(item.metadata);
    let whole = gathered(parameters, |next| async move { api.list_metadata(&next).await }, keep).await?;
    Ok(whole.items)
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
    let mut pages = Pages::new(parameters);
    loop {
        let answer = ask(pages.next.clone()).await;
        if let Some(whole) = pages.take(answer, &keep)? {
            return Ok(whole);
        }
    }
}

/// What is kept of the pages so far.
struct Pages<K> {
    items: Vec<K>,
    /// What is to be asked for next.
    next: ListParams,
}

impl<K: Clone> Pages<K> {
    fn new(parameters: &ListParams) -> Self {
        let next = ListParams { limit: parameters.limit.or(Some(PAGE)), ..parameters.clone() };
        Self { items: Vec::new(), next }
    }

    /// Takes what came of the question; gives the whole list if that was the last page.
    fn take<A: Clone>(
        &mut self,
        answer: Result<ObjectList<A>, kube::Error>,
        keep: impl Fn(A) -> K,
    ) -> Result<Option<ObjectList<K>>, kube::Error> {
        let ObjectList { types, mut metadata, items } = match answer {
            Ok(page) => page,
            // Listed anew, and whole: nothing is missing and nothing is there twice.
            Err(kube::Error::Api(status)) if status.code == EXPIRED && self.next.continue_token.is_some() => {
                self.items.clear();
                self.next.limit = None;
                self.next.continue_token = None;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.items.extend(items.into_iter().map(keep));
        self.next.continue_token = metadata.continue_.take().filter(|token| !token.is_empty());
        if self.next.continue_token.is_some() {
            return Ok(None);
        }
        Ok(Some(ObjectList { types, metadata, items: std::mem::take(&mut self.items) }))
    }
}

#[cfg(test)]
mod tests {
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
    fn collected(answers: Vec<Answer>) -> (Option<Vec<u8>>, Vec<Asked>) {
        let (mut pages, mut asked) = (Pages::new(&ListParams::default()), Vec::new());
        for answer in answers {
            asked.push((pages.next.continue_token.clone(), pages.next.limit));
            match pages.take(answer, |item| item) {
                Ok(None) => {}
                ended => return (ended.ok().flatten().map(|whole| whole.items), asked),
            }
        }
        panic!("it asks on")
    }

    #[test]
    fn pages_follow_each_other_and_a_list_that_expired_is_read_anew_and_whole() {
        let token = |text: &str| Some(text.to_owned());
        let whole = collected(vec![page(&[1, 2], "a"), page(&[3], "")]);
        assert_eq!(whole, (Some(vec![1, 2, 3]), vec![(None, Some(PAGE)), (token("a"), Some(PAGE))]));
        let anew = collected(vec![page(&[1, 2], "a"), expired(), page(&[1, 3, 4], "")]);
        assert_eq!(anew.0, Some(vec![1, 3, 4]));
        assert_eq!(anew.1.last(), Some(&(None, None)));
        assert_eq!(collected(vec![expired()]).0, None, "a first page that expired is an error");
    }
}
