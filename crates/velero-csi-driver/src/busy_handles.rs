//! One call at a time for each handle: a caller that lost patience calls again while the first call still works.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;

/// The handles calls work on.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyHandles(Arc<Mutex<BTreeSet<String>>>);

/// A handle in the hands of one call, free again when dropped.
pub(crate) struct HeldHandle {
    busy: BusyHandles,
    id: String,
}

impl BusyHandles {
    /// Takes a handle, or tells the caller to come again.
    pub(crate) fn take(&self, id: &str) -> Result<HeldHandle, Status> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned()) {
            return Ok(HeldHandle { busy: self.clone(), id: id.to_owned() });
        }
        Err(Status::aborted(format!("another call works on {id}: try again later")))
    }
}

impl Drop for HeldHandle {
    fn drop(&mut self) {
        self.busy.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_taken_once_until_it_is_let_go() {
        let busy = BusyHandles::default();
        let first = busy.take("one").unwrap();
        assert!(busy.take("one").is_err());
        busy.take("two").unwrap();
        drop(first);
        busy.take("one").unwrap();
    }
}
