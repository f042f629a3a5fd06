//! Keeps a panic of one call from taking the process along.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tonic::{Response, Status};

use crate::Result;
use crate::wire::to_status;

/// Answers a call with what the plugin made of it; a panic becomes an error of this call alone.
pub(crate) async fn answer<T>(work: impl Future<Output = Result<T>>) -> Result<Response<T>, Status> {
    answer_status(async { work.await.map_err(|error| to_status(&error)) }).await
}

/// As [`answer`], for work that makes its own status.
pub(crate) async fn answer_status<T>(work: impl Future<Output = Result<T, Status>>) -> Result<Response<T>, Status> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome.map(Response::new),
        Err(panic) => Err(Status::aborted(format!("plugin panicked: {}", words(&*panic)))),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::Error;

    #[tokio::test]
    async fn a_panic_is_an_aborted_call() {
        let status = answer::<()>(async { panic!("item {}", 7) }).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Aborted, "plugin panicked: item 7"));
    }

    #[tokio::test]
    async fn an_error_keeps_its_text() {
        let status = answer::<()>(async { Err(Error::Failed("boom".to_owned())) }).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unknown, "boom"));
    }
}
