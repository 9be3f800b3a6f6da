//! The allocator of the whole program, and how it gets its memory from the system.

use mimalloc::MiMalloc;

/// A server frees chunks on other threads than those that received them, millions of small ones; mimalloc is made for
/// that.
#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

/// Asks the system for small pages.
///
/// mimalloc asks for huge ones. While a table grows, each is cleared two megabytes at a time; on virtual machines this
/// took most of the time of storing large chunks (docs/benchmarks.md).
pub(crate) fn prepare() {
    // A system that refuses is slower, which is no reason not to start.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
