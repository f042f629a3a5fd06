//! The hooks that follow on a block: run at once, or when its volumes are copied.

use futures::StreamExt;

use super::held::HeldBlock;
use super::run::Run;

impl Run {
    /// Runs the hooks that follow on a block: now, or when its volumes are copied.
    pub(super) async fn release_or_hold(&self, block: HeldBlock) {
        if block.hooked.is_empty() {
            return;
        }
        if !self.volume_context().is_saving(&block.pods) {
            return self.run_post_hooks(&block).await;
        }
        if let Err(refused) = self.held.hold(block) {
            self.release(*refused).await;
        }
    }

    /// Releases blocks as their volumes are copied, until no more follow.
    pub(super) async fn release_held(&self) {
        if let Some(held) = self.held.take() {
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
