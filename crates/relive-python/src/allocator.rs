//! The allocator of Rust's memory. Python and numpy use their own allocators.
#![expect(
    unsafe_code,
    reason = "`GlobalAlloc` is an unsafe trait; this allocator gets every block from mimalloc"
)]

use std::alloc::{GlobalAlloc, Layout};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libmimalloc_sys as mi;
use mimalloc::MiMalloc;

#[global_allocator]
static GLOBAL: BySize = BySize;

/// The sizes of blocks that are placed in small pages. Blocks of these sizes are chunks of large steps. Larger blocks
/// are mostly batches, which are reused, and tables' records of their items, which are accessed in random order.
const LARGE_BYTES: Range<usize> = (16 << 10)..(1 << 20);

/// The address space for such blocks; beyond it, they are placed with all other blocks. A mimalloc arena is limited to
/// slightly less than 16 GiB. Only the addresses in use take memory.
const LARGE_ADDRESSES: usize = 15 << 30;

/// Writers and servers free chunks and items on threads other than those that allocated them, a pattern that mimalloc
/// is designed for. The allocator requests huge pages from the system, which make scattered small rows faster to
/// access. While a table of large chunks grows, clearing such pages takes most of the time on virtual machines
/// (docs/benchmarks.md), so large chunks have separate addresses, with small pages.
struct BySize;

/// The heap of large blocks. Any thread may allocate from it.
struct Heap(*mut mi::mi_heap_t);

// SAFETY: all threads may use mimalloc's heaps concurrently (version 3; `mi_free` returns the blocks).
unsafe impl Send for Heap {}
// SAFETY: As above.
unsafe impl Sync for Heap {}

impl BySize {
    /// Returns the heap for blocks of this size, or `None` if it is the ordinary heap. If the system refuses the
    /// address space, it is not requested again.
    fn heap_for(size: usize) -> Option<*mut mi::mi_heap_t> {
        static LARGE: OnceLock<Option<Heap>> = OnceLock::new();
        if !LARGE_BYTES.contains(&size) {
            return None;
        }
        let heap = LARGE.get_or_init(|| {
            let mut arena = null_mut();
            // SAFETY: the pointer is valid for the call; neither call allocates with Rust's allocator, which would
            // recurse.
            let heap = unsafe {
                let refused = mi::mi_reserve_os_memory_ex(LARGE_ADDRESSES, true, false, true, &raw mut arena);
                if refused == 0 { mi::mi_heap_new_in_arena(arena) } else { null_mut() }
            };
            (!heap.is_null()).then_some(Heap(heap))
        });
        heap.as_ref().map(|heap| heap.0)
    }
}

// SAFETY: all blocks are mimalloc's, which frees and resizes blocks of any heap in the same way. Blocks that do not fit
// in the heap of large blocks are placed in the ordinary heap.
unsafe impl GlobalAlloc for BySize {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(heap) = Self::heap_for(layout.size()) {
            // SAFETY: the heap is never deleted, and the caller upholds mimalloc's requirements.
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
            // SAFETY: as above; a block that cannot be resized stays unchanged.
            let moved = unsafe { mi::mi_heap_realloc_aligned(heap, block.cast(), size, layout.align()) };
            if !moved.is_null() {
                return moved.cast();
            }
        }
        // SAFETY: As above.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}
