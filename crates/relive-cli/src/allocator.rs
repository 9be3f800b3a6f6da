//! The allocator of the whole program, and how it gets its memory from the system.

use std::time::Duration;

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

/// Time between two looks for memory that nobody uses.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(2);

/// Gives memory back to the system that is not used any more, from now on.
///
/// mimalloc does so when a thread asks it for memory. On a server whose clients have gone nobody asks, and what a
/// table that was dropped has taken would look as if it were used for as long as that lasts.
pub(crate) fn give_back_from_now_on() {
    let give_back = || loop {
        std::thread::sleep(GIVE_BACK_EVERY);
        give_back();
    };
    if let Err(error) = std::thread::Builder::new().name("relive-memory".to_owned()).spawn(give_back) {
        tracing::warn!(%error, "no thread for giving memory back: it stays with the process while nobody is there");
    }
}

#[expect(unsafe_code, reason = "the only way to the allocator's own function")]
fn give_back() {
    // SAFETY: It takes no pointers, may be called by any thread at any time, and touches nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(false) };
}
