//! The memory that an item needs beyond its data.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::{Freed, NewItem, Table, TableConfig, Timestamp};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

const ITEMS: u32 = 1_000_000;

/// The number of bytes of data per item: one step of 100 floats.
const DATA_BYTES: usize = 400;

/// The permitted bytes per item beyond its data.
const BUDGET_BYTES: usize = 400;

/// The number of bytes in use, as the C library counts them.
static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

/// A block of the C library's heap has a header of 8 bytes and its size is a multiple of 16.
fn block_bytes(layout: &Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

#[expect(unsafe_code, reason = "only an allocator sees every allocation")]
// SAFETY: every call is passed unchanged to the system's allocator; counting accesses no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE_BYTES.fetch_add(block_bytes(&layout), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(block_bytes(&layout), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`, which is the same here, and `alloc` used the system's
        // allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns an item with one column, which is one slice of its own chunk.
fn item(key: u32) -> NewItem {
    let range = SequenceRange { episode_id: u64::from(key / 1000), start: 0, end: 0, sparse: false };
    let row = Tensor::from_slice(&[0.5_f32; 100], [1, 100]).expect("100 floats make a row of 100");
    let parts = encode_chunk(u64::from(key), range, &[row], false, Codec::Raw).expect("a row can be encoded");
    assert_eq!(parts.frame.len(), DATA_BYTES);
    let mut builder = TrajectoryBuilder::new();
    let chunk = builder.chunk(Chunk::new(parts).expect("a chunk that was just encoded is valid").into());
    builder.begin_column(false);
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    let trajectory = builder.build().expect("the chunk has one row");
    NewItem { key: u64::from(key), priority: 1.0, times_sampled: 0, trajectory }
}

#[test]
fn a_million_items_of_one_step_stay_within_the_budget() {
    let before = IN_USE_BYTES.load(Ordering::Relaxed);
    let mut table = Table::new(TableConfig::new("replay"), Vec::new()).unwrap();
    assert!(IN_USE_BYTES.load(Ordering::Relaxed) - before < 1000, "an empty table costs nothing to speak of");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut freed = Freed::default();
    for key in 0..ITEMS {
        table.insert(item(key), Timestamp::EPOCH, &mut rng, &mut freed).unwrap();
    }
    assert_eq!((table.len(), freed.len()), (u64::from(ITEMS), 0));
    let total = IN_USE_BYTES.load(Ordering::Relaxed) - before;
    let beyond = total / ITEMS as usize - DATA_BYTES;
    println!("{beyond} bytes per item beyond its {DATA_BYTES} bytes of data");
    assert!(beyond <= BUDGET_BYTES, "{beyond} bytes per item beyond its data, {BUDGET_BYTES} are promised");
    for key in ITEMS..ITEMS + ITEMS / 4 {
        table.insert(item(key), Timestamp::EPOCH, &mut rng, &mut freed).unwrap();
        freed.clear();
    }
    let grown = IN_USE_BYTES.load(Ordering::Relaxed) - before;
    assert!(grown <= total + total / 100, "a full table grew from {total} to {grown} bytes");
    table.reset(&mut freed);
    drop(freed);
    assert!(IN_USE_BYTES.load(Ordering::Relaxed) - before < 10_000, "a reset gives everything back");
}
