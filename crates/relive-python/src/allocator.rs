//! The allocator of what Rust keeps. Python and numpy have their own.
#![expect(unsafe_code, reason = "an allocator is; this one asks mimalloc for every block")]

use std::alloc::{GlobalAlloc, Layout};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libmimalloc_sys as mi;
use mimalloc::MiMalloc;

#[global_allocator]
static GLOBAL: BySize = BySize;

/// Bytes of blocks that lie in small pages: chunks of large steps. What is larger is mostly what tables keep of their
/// items, which is looked up all over, and batches, which are used again.
const LARGE_BYTES: Range<usize> = (16 << 10)..(1 << 20);

/// Addresses for such blocks, beyond which they lie with the others: the most that one of mimalloc's arenas can have
/// is a little less than 16 GiB. Memory is taken only where something lies.
const LARGE_ADDRESSES: usize = 15 << 30;

/// Chunks and items are freed on other threads than those that made them, by writers as by servers; mimalloc is made
/// for that. It asks the system for huge pages, with which small rows that lie all over the memory are found faster.
/// While a table of large chunks grows, clearing such pages takes most of the time on virtual machines
/// (docs/benchmarks.md): they have addresses of their own, with small pages.
struct BySize;

/// Where large blocks lie. Any thread may ask it for blocks.
struct Heap(*mut mi::mi_heap_t);

// SAFETY: mimalloc's heaps may be used by all threads at once (version 3; the blocks go back by `mi_free`).
unsafe impl Send for Heap {}
// SAFETY: As above.
unsafe impl Sync for Heap {}

impl BySize {
    /// The heap for blocks of this size, if it is not the ordinary one. Addresses that the system refuses are not
    /// asked for again.
    fn heap_for(size: usize) -> Option<*mut mi::mi_heap_t> {
        static LARGE: OnceLock<Option<Heap>> = OnceLock::new();
        if !LARGE_BYTES.contains(&size) {
            return None;
        }
        let heap = LARGE.get_or_init(|| {
            let mut arena = null_mut();
            // SAFETY: The pointer is valid for the call; neither call allocates by Rust's allocator, which would come
            // back here.
            let heap = unsafe {
                let refused = mi::mi_reserve_os_memory_ex(LARGE_ADDRESSES, true, false, true, &raw mut arena);
                if refused == 0 { mi::mi_heap_new_in_arena(arena) } else { null_mut() }
            };
            (!heap.is_null()).then_some(Heap(heap))
        });
        heap.as_ref().map(|heap| heap.0)
    }
}

// SAFETY: All blocks are mimalloc's, which frees and resizes those of any heap alike. What a heap of its own has no
// place for goes to the ordinary one.
unsafe impl GlobalAlloc for BySize {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(heap) = Self::heap_for(layout.size()) {
            // SAFETY: The heap is never deleted, and the caller keeps what mimalloc asks for.
            let block = unsafe { mi::mi_heap_malloc_aligned(heap, layout.size(), layout.align()) };
            if !block.is_null() {
                return block.cast();
            }
        }
        // SAFETY: As above.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(heap) = Self::heap_for(layout.size()) {
            // SAFETY: As above.
            let block = unsafe { mi::mi_heap_zalloc_aligned(heap, layout.size(), layout.align()) };
            if !block.is_null() {
                return block.cast();
            }
        }
        // SAFETY: As above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: As above.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if let Some(heap) = Self::heap_for(size) {
            // SAFETY: As above; a block that cannot be resized stays as it is.
            let moved = unsafe { mi::mi_heap_realloc_aligned(heap, block.cast(), size, layout.align()) };
            if !moved.is_null() {
                return moved.cast();
            }
        }
        // SAFETY: As above.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}
