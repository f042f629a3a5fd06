//! Blocks of packs, so that small contents beside each other take one request.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};

use crate::lock;
use crate::store::{BlobStore, get_exactly};
use crate::{Error, Result};

/// A block is what one request costs anyway.
const BLOCK: u64 = 1 << 20;
/// How many blocks are kept.
const MOST_BLOCKS: usize = 12;

#[derive(Default)]
pub(super) struct BlockCache {
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    held: HashMap<(Box<str>, u64), (Bytes, u64)>,
    clock: u64,
}

impl BlockCache {
    /// A part of a pack, from blocks that are held or fetched.
    pub(super) fn read(&self, store: &dyn BlobStore, pack: &str, offset: u64, length: usize) -> Result<Bytes> {
        if length as u64 > BLOCK {
            return get_exactly(store, pack, offset, length);
        }
        let end = offset + length as u64;
        let mut found = BytesMut::with_capacity(length);
        for number in offset / BLOCK..=end.saturating_sub(1) / BLOCK {
            let block = self.block(store, pack, number)?;
            let start = offset.saturating_sub(number * BLOCK);
            let stop = (end - number * BLOCK).min(block.len() as u64);
            // Both are at most a block.
            found.extend_from_slice(block.get(start as usize..stop as usize).unwrap_or_default());
        }
        if found.len() == length {
            Ok(found.freeze())
        } else {
            Err(Error::damaged_blob(pack, format!("it ends before byte {end}")))
        }
    }

    fn block(&self, store: &dyn BlobStore, pack: &str, number: u64) -> Result<Bytes> {
        let key = (Box::from(pack), number);
        {
            let mut blocks = lock(&self.blocks);
            blocks.clock += 1;
            let clock = blocks.clock;
            if let Some((block, used)) = blocks.held.get_mut(&key) {
                *used = clock;
                return Ok(block.clone());
            }
        }
        let block = store.get_range(pack, number * BLOCK, BLOCK as usize)?;
        let mut blocks = lock(&self.blocks);
        if blocks.held.len() >= MOST_BLOCKS {
            let oldest = blocks.held.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| blocks.held.remove(&key));
        }
        let clock = blocks.clock;
        blocks.held.insert(key, (block.clone(), clock));
        Ok(block)
    }
}
