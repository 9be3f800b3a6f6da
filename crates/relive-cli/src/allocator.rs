//! The allocator of the whole program.

use mimalloc::MiMalloc;

/// A server frees chunks on other threads than those that received them, millions of small ones; mimalloc is made for
/// that.
#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;
