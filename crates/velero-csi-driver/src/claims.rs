//! One call at a time for each handle: a caller that lost patience calls again while the first call still works.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;

/// The handles calls work on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<BTreeSet<String>>>);

/// A handle in the hands of one call, free again when dropped.
pub(crate) struct Claim {
    claims: Claims,
    id: String,
}

impl Claims {
    /// Claims a handle, or tells the caller to come again.
    pub(crate) fn take(&self, id: &str) -> Result<Claim, Status> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned()) {
            return Ok(Claim { claims: self.clone(), id: id.to_owned() });
        }
        Err(Status::aborted(format!("another call works on {id}: try again later")))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_claimed_once_until_it_is_let_go() {
        let claims = Claims::default();
        let first = claims.take("one").unwrap();
        assert!(claims.take("one").is_err());
        claims.take("two").unwrap();
        drop(first);
        claims.take("one").unwrap();
    }
}
