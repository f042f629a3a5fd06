//! Work beside a restore in which the program itself may fail: what is lost then must not be taken for done.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// What is said of a panic, whose own words are in the log of the server.
const FAULT: &str = "a fault of the server, which its log tells of";

/// Does a piece of work. Where it panics, `tell` says what is lost, and gives what came of it.
pub(crate) async fn or_told<T>(work: impl Future<Output = T>, tell: impl FnOnce(&'static str) -> T) -> T {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| tell(FAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_and_nothing_else_is() {
        assert_eq!(or_told(async { "done" }, |fault| fault).await, "done");
        assert_eq!(or_told(async { panic!("item 7") }, |fault| fault).await, FAULT);
    }
}
