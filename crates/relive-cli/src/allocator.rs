//! The allocator of the whole program, and how it obtains memory from the system.

use std::time::Duration;

use mimalloc::MiMalloc;

/// A server frees millions of small chunks on threads other than those that received them, a pattern that mimalloc is
/// designed for.
#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

/// Requests small pages from the system.
///
/// By default, mimalloc requests huge pages. While a table grows, each of these two-megabyte pages must be cleared; on
/// virtual machines, this took most of the time to store large chunks (docs/benchmarks.md).
pub(crate) fn prepare() {
    // If the system refuses, the program is slower but still starts.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// The interval between checks for unused memory.
const PURGE_INTERVAL: Duration = Duration::from_secs(2);

/// Returns unused memory to the system from now on.
///
/// mimalloc only returns memory when a thread allocates. On a server without clients, no thread allocates, and the
/// memory of a dropped table would count as used indefinitely.
pub(crate) fn give_back_from_now_on() {
    let give_back = || loop {
        std::thread::sleep(PURGE_INTERVAL);
        give_back();
    };
    if let Err(error) = std::thread::Builder::new().name("relive-memory".to_owned()).spawn(give_back) {
        tracing::warn!(%error, "cannot start the thread that returns memory to the system: an idle server keeps its memory");
    }
}

#[expect(unsafe_code, reason = "the allocator's own function is only available as C")]
fn give_back() {
    // SAFETY: the call takes no pointers, is safe from any thread at any time, and does not touch memory in use.
    unsafe { libmimalloc_sys::mi_collect(false) };
}
