//! Blocks whose items are stored and whose volumes are still being copied: the hooks that follow have to wait, the other
//! blocks do not.

use std::sync::{Arc, Mutex};

use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hooks::HookedPod;
use crate::lock;
use crate::volumes::PodPlace;

/// How many blocks may be between their hooks at the same time: what the hooks before have stopped stands still until
/// the copies of its volumes are made, and node agents make few at a time.
const BLOCKS_AT_ONCE: usize = 16;

/// A block between its hooks, whose volumes are being copied.
pub(super) struct HeldBlock {
    /// Its pods.
    pub pods: Vec<PodPlace>,
    /// Those whose hooks are due.
    pub hooked: Vec<Arc<HookedPod>>,
    /// Its place among those between their hooks.
    pub place: Option<OwnedSemaphorePermit>,
}

/// The blocks between their hooks.
pub(super) struct HeldBlocks {
    places: Arc<Semaphore>,
    sender: UnboundedSender<HeldBlock>,
    receiver: Mutex<Option<UnboundedReceiver<HeldBlock>>>,
}

impl Default for HeldBlocks {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded();
        Self { places: Arc::new(Semaphore::new(BLOCKS_AT_ONCE)), sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl HeldBlocks {
    /// Waits for a place among the blocks that are between their hooks.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Holds a block until its volumes are copied; gives it back when nobody waits for held ones any more.
    pub(super) fn hold(&self, block: HeldBlock) -> Result<(), Box<HeldBlock>> {
        self.sender.unbounded_send(block).map_err(|refused| Box::new(refused.into_inner()))
    }

    /// The blocks as they are held; for one who waits for them.
    pub(super) fn take(&self) -> Option<UnboundedReceiver<HeldBlock>> {
        lock(&self.receiver).take()
    }

    /// No block will follow.
    pub(super) fn close(&self) {
        self.sender.close_channel();
    }
}
