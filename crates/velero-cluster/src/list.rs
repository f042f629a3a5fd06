//! Paged lists: the way everything a backup holds comes in.
//!
//! Items stay the bytes the server sent. While a page is consumed the next one is fetched and split in a task of its
//! own, and no more than that one: a slow consumer holds two pages, not the whole list.

use std::sync::Arc;

use futures::{Stream, stream};
use kube::api::ListParams;
use kube::core::Request;
use tokio_util::task::AbortOnDropHandle;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::page::Page;
use crate::resource_type::ResourceType;

/// Pages are kept near this size: fewer items are asked for after a page that was larger.
const PAGE_BYTES: usize = 8 << 20;
/// A list starts with a page of at most so many items: how large its items are is not known yet.
const FIRST_PAGE_ITEMS: u32 = 100;
/// Every page costs the API server a walk over all that is left of the list, so pages of fixed size make a long list cost the
/// square of its length: while so much is left that this matters, a page holds a share of it.
const LONG_REST: u64 = 32_000;
const SHARE_OF_REST: u64 = 64;
/// How many times as many items as was asked for a page of a long list may hold.
const MOST_TIMES: u32 = 20;
/// The client repeats requests, but an answer that breaks off half way is repeated here.
const ATTEMPTS: u32 = 4;

impl Cluster {
    /// Lists the objects of a type page by page, of one namespace or of all.
    ///
    /// `page_size` is how many items a page may hold; the first pages, and pages of large items,
    /// hold fewer, those of a list of tens of thousands more, 8 MiB at most. Zero asks for everything
    /// at once. When the server no longer serves the rest of
    /// a list (it took longer than history is kept), the rest is read at the present state; a
    /// server that cannot do that is asked for everything again, on one page with
    /// [`Page::restarted`] set. After an error the stream ends.
    pub fn list_pages(
        &self,
        resource_type: &ResourceType,
        namespace: Option<&str>,
        label_selector: Option<&str>,
        page_size: u32,
    ) -> impl Stream<Item = Result<Page>> + Send + use<> {
        let list = Arc::new(List {
            cluster: self.clone(),
            resource_type: Arc::new(resource_type.clone()),
            namespace: namespace.map(str::to_owned),
            label_selector: label_selector.map(str::to_owned),
        });
        let first = Some(Step::Fetch(Position { token: None, limit: page_size.min(FIRST_PAGE_ITEMS), size_hint: 0 }));
        stream::unfold(first, move |step| next_page(Arc::clone(&list), step, page_size))
    }
}

/// What is listed.
struct List {
    cluster: Cluster,
    resource_type: Arc<ResourceType>,
    namespace: Option<String>,
    label_selector: Option<String>,
}

/// Where a page starts and how much is asked for.
struct Position {
    token: Option<String>,
    limit: u32,
    size_hint: usize,
}

enum Step {
    Fetch(Position),
    Fetching(AbortOnDropHandle<Result<Page>>, u32),
}

/// Waits for the page of this step and starts to fetch the one after it.
async fn next_page(list: Arc<List>, step: Option<Step>, page_size: u32) -> Option<(Result<Page>, Option<Step>)> {
    let (page, limit) = match step? {
        Step::Fetch(position) => (list.fetch_or_resume(&position).await, position.limit),
        Step::Fetching(task, limit) => (task.await.unwrap_or_else(|error| Err(list.task_died(error))), limit),
    };
    let next = page.as_ref().ok().and_then(|page| {
        let token = page.continue_token.clone()?;
        let most = most_items(page_size, page.remaining);
        let limit = next_limit(most, limit, page.items.len(), page.size, PAGE_BYTES);
        let position = Position { token: Some(token), limit, size_hint: page.size.min(PAGE_BYTES) };
        let task = tokio::spawn(async move { list.fetch_or_resume(&position).await });
        Some(Step::Fetching(AbortOnDropHandle::new(task), limit))
    });
    Some((page, next))
}

impl List {
    async fn fetch_or_resume(&self, position: &Position) -> Result<Page> {
        match self.fetch_repeatedly(position).await {
            Err(Error::Expired(refusal)) if position.token.is_some() => {
                tracing::debug!(action = refusal.action, "the list expired before its end");
                self.resume(refusal.continue_token, position).await
            }
            result => result,
        }
    }

    /// Goes on with the token the server offers instead. It leads to the same place in the list as it is now, which
    /// neither repeats items nor needs the whole list in memory.
    async fn resume(&self, token: Option<String>, position: &Position) -> Result<Page> {
        if token.is_some() {
            let offered = Position { token, limit: position.limit, size_hint: position.size_hint };
            match self.fetch_repeatedly(&offered).await {
                Err(Error::Expired(_)) => {}
                result => return result,
            }
        }
        let everything = Position { token: None, limit: 0, size_hint: position.size_hint };
        let page = self.fetch_repeatedly(&everything).await?;
        Ok(Page { restarted: true, ..page })
    }

    async fn fetch_repeatedly(&self, position: &Position) -> Result<Page> {
        let mut attempt = 1;
        loop {
            match self.fetch(position).await {
                Err(Error::Unreachable { .. }) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn fetch(&self, position: &Position) -> Result<Page> {
        let action = format!("list {}", self.resource_type.group_resource());
        let parameters = ListParams {
            label_selector: self.label_selector.clone(),
            limit: (position.limit > 0).then_some(position.limit),
            continue_token: position.token.clone(),
            ..ListParams::default()
        };
        let path = self.resource_type.collection_path(self.namespace.as_deref())?;
        let request = Request::new(path)
            .list(&parameters)
            .map_err(|error| Error::BadRequest { action: action.clone(), message: error.to_string() })?;
        let bytes = self.cluster.fetch(&action, request, position.size_hint).await?;
        Page::parse(&self.resource_type, &bytes)
    }

    fn task_died(&self, error: tokio::task::JoinError) -> Error {
        Error::Unreadable { action: format!("list {}", self.resource_type.group_resource()), source: error.into() }
    }
}

/// How many items the next page may hold at most, of a list of which so many are left.
fn most_items(page_size: u32, remaining: Option<u64>) -> u32 {
    let rest = remaining.filter(|rest| *rest >= LONG_REST).unwrap_or_default();
    let share = u32::try_from(rest / SHARE_OF_REST).unwrap_or(u32::MAX);
    share.clamp(page_size, page_size.saturating_mul(MOST_TIMES))
}

/// How many items to ask for next: as many as fit into `aim` bytes going by the last page, growing back at most
/// twofold a page, and never more than the caller allows.
pub(crate) fn next_limit(page_size: u32, limit: u32, items: usize, bytes: usize, aim: usize) -> u32 {
    if items == 0 || page_size == 0 {
        return limit;
    }
    let fitting = u32::try_from(items.saturating_mul(aim) / bytes.max(1)).unwrap_or(u32::MAX);
    fitting.clamp(1, page_size.min(limit.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_follow_the_size_of_items() {
        const MIB: usize = 1 << 20;
        for (page_size, limit, items, bytes, expected) in [
            (500, 500, 500, MIB, 500),     // small items: as asked
            (500, 500, 500, 8 * MIB, 500), // just fits
            (500, 500, 500, 80 * MIB, 50), // ten times too large
            (500, 50, 50, 100 * MIB, 4),   // shrinks again
            (500, 1, 1, 100 * MIB, 1),     // never below one
            (500, 50, 50, MIB, 100),       // grows back, at most twofold
            (500, 400, 400, MIB, 500),     // never above what was asked
            (500, 200, 0, MIB, 200),       // an empty page teaches nothing
            (0, 0, 1000, 900 * MIB, 0),    // no paging asked
        ] {
            let next = next_limit(page_size, limit, items, bytes, PAGE_BYTES);
            assert_eq!(next, expected, "{page_size} {limit} {items} {bytes}");
        }
    }

    #[test]
    fn pages_of_a_long_list_hold_a_share_of_what_is_left() {
        for (page_size, remaining, expected) in [
            (500, None, 500),              // the server does not say
            (500, Some(31_999), 500),      // short
            (500, Some(64_000), 1_000),    // long
            (500, Some(640_000), 10_000),  // as many as may be
            (500, Some(u64::MAX), 10_000), // never more
            (100, Some(640_000), 2_000),   // who asks for less gets less
            (1, Some(31_999), 1),          // as asked
            (0, Some(640_000), 0),         // no paging asked
        ] {
            assert_eq!(most_items(page_size, remaining), expected, "{page_size} {remaining:?}");
        }
    }
}
