//! Blocks whose items are stored and whose volumes are still being copied: the hooks that follow have to wait, the other
//! blocks do not.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::run::Run;
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

    /// No block will follow.
    pub(super) fn close(&self) {
        self.sender.close_channel();
    }
}

impl Run {
    /// Runs the hooks that follow on a block: now, or when its volumes are copied.
    pub(super) async fn release_or_hold(&self, block: HeldBlock) {
        if block.hooked.is_empty() {
            return;
        }
        if !self.volume_context().is_saving(&block.pods) {
            return self.run_post_hooks(&block).await;
        }
        if let Err(refused) = self.held.sender.unbounded_send(block) {
            self.release(refused.into_inner()).await;
        }
    }

    /// Releases blocks as their volumes are copied, until no more follow.
    pub(super) async fn release_held(&self) {
        let held = lock(&self.held.receiver).take();
        if let Some(held) = held {
            held.for_each_concurrent(None, |block| self.release(block)).await;
        }
    }

    async fn release(&self, block: HeldBlock) {
        self.volume_context().wait_for_pods(&block.pods).await;
        self.run_post_hooks(&block).await;
        drop(block.place);
    }

    async fn run_post_hooks(&self, block: &HeldBlock) {
        for pod in &block.hooked {
            self.owed_hooks.run_post(&self.hooks, pod).await;
        }
    }
}
