//! The allocator of what Rust keeps. Python and numpy have their own.

use mimalloc::MiMalloc;

/// Chunks and items are freed on other threads than those that made them, by writers as by servers; mimalloc is made for that.
#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;
