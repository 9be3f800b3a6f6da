//! Reads or checks a checkpoint's items in parallel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use relive_table::{CheckpointProgress, StoredItem};
use relive_tensor::Chunk;
use relive_threads::parallel;

use crate::manifest::{BlockHead, ItemBlock, ItemColumns, ItemFault, KnownChunks, rebuild};

/// The items of a block, and counts of the missing ones.
pub(crate) struct ReadBlock {
    pub(super) head: BlockHead,
    /// The offset of the block.
    pub(super) offset: u64,
    /// The items, or none if they were only checked.
    pub(super) items: Vec<StoredItem>,
    /// The number of intact items.
    pub(super) whole: u64,
    /// The first and the last sequence numbers.
    pub(super) order: Option<(u64, u64)>,
    /// Whether sequence numbers increase.
    pub(super) is_sorted: bool,
    /// The number of items that lack a chunk, by the position of the first missing chunk.
    pub(super) missing_chunks: BTreeMap<u32, u64>,
    /// Other reasons why items are missing, with the number of items for each.
    pub(super) faults: Vec<(String, u64)>,
}

/// Builds the items of blocks.
pub(super) fn read_items(
    blocks: Vec<ItemBlock>,
    known: &KnownChunks,
    chunks: &[OnceLock<Arc<Chunk>>],
    threads: usize,
    progress: &CheckpointProgress,
) -> Vec<ReadBlock> {
    let chunk_at = |position: u32| chunks.get(known.index_of(position)?)?.get().cloned();
    each(blocks, threads, progress, |columns, read| {
        read.items.reserve_exact(columns.len());
        for item in rebuild(columns, chunk_at) {
            match item {
                Ok(item) => read.items.push(item),
                Err(ItemFault::LostChunk { position }) => {
                    *read.missing_chunks.entry(position).or_default() += 1;
                }
                Err(fault) => read.faults.push((fault.to_string(), 1)),
            }
        }
        read.whole = read.items.len() as u64;
    })
}

/// Checks the items of blocks without reading chunks: `is_there` returns whether there is a chunk at a position.
pub(crate) fn check_items(
    blocks: Vec<ItemBlock>,
    is_there: impl Fn(u32) -> bool + Sync,
    threads: usize,
    progress: &CheckpointProgress,
) -> Vec<ReadBlock> {
    each(blocks, threads, progress, |columns, read| {
        for chunks in columns.chunks_by_item() {
            match chunks.iter().find(|position| !is_there(**position)) {
                Some(position) => *read.missing_chunks.entry(*position).or_default() += 1,
                None => read.whole += 1,
            }
        }
    })
}

fn each(
    blocks: Vec<ItemBlock>,
    threads: usize,
    progress: &CheckpointProgress,
    read: impl Fn(&ItemColumns, &mut ReadBlock) + Sync,
) -> Vec<ReadBlock> {
    let blocks: Vec<_> = blocks.into_iter().map(|block| Mutex::new(Some(block))).collect();
    let work = |number: usize| {
        let block = blocks.get(number)?.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let block = read_block(block, &read);
        progress.advance(block.whole, 0);
        Some(block)
    };
    parallel(threads, blocks.len(), work).into_iter().flatten().collect()
}

fn read_block(block: ItemBlock, read: impl Fn(&ItemColumns, &mut ReadBlock)) -> ReadBlock {
    let mut made = ReadBlock {
        head: block.head,
        offset: block.offset,
        items: Vec::new(),
        whole: 0,
        order: None,
        is_sorted: true,
        missing_chunks: BTreeMap::new(),
        faults: Vec::new(),
    };
    match block.decode() {
        Ok(columns) => {
            let sequences = columns.sequences();
            made.order = sequences.first().copied().zip(sequences.last().copied());
            made.is_sorted = sequences.is_sorted_by(|one, next| one < next);
            read(&columns, &mut made);
        }
        Err(fault) => made.faults.push((fault.to_string(), made.head.count.into())),
    }
    made
}
