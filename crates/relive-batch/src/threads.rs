//! Processes large batches on several threads.

use std::num::NonZero;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use relive_tensor::ChunkFault;

/// The output size that justifies another thread. Starting a thread takes about 20 µs; copying this many bytes takes as
/// long, and decompressing them takes several times longer.
const BYTES_PER_THREAD: usize = 384 << 10;

/// The number of threads beyond which the bottleneck is memory, not computation.
const MAX_THREADS: usize = 4;

/// Returns the number of threads that an output of this size justifies.
pub(crate) fn threads_for(bytes: usize) -> usize {
    let threads = (bytes / BYTES_PER_THREAD).clamp(1, MAX_THREADS);
    if threads == 1 { 1 } else { threads.min(available_threads()) }
}

/// Runs `work` for each of the shares on a thread for each share, of which this thread is one. If the system allows no
/// more threads, the threads that there are run the other shares, too.
///
/// # Errors
/// Returns the first error of any share, after all threads have ended.
pub(crate) fn on_threads<T: Send>(
    shares: Vec<T>,
    work: impl Fn(T) -> Result<(), ChunkFault> + Sync,
) -> Result<(), ChunkFault> {
    let others = shares.len().saturating_sub(1);
    let left = Mutex::new(shares);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let run = || std::iter::from_fn(next).try_for_each(&work);
    if others == 0 {
        return run();
    }
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let running: Vec<_> = (0..others).map_while(start).collect();
        let own = run();
        // A panic in a thread propagates to the caller.
        let ended = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        // All threads are joined before the first error is returned.
        ended.fold(own, Result::and)
    })
}

/// Returns the number of threads that can run in parallel. It is cached, because determining it requires reading files.
fn available_threads() -> usize {
    static THREADS: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    *THREADS
}
