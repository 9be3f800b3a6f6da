//! Processes large batches on several threads.

use relive_tensor::ChunkFault;
use relive_threads::Pool;

/// The output size that justifies another thread. Waking a thread may take 20 µs; copying this many bytes takes as long,
/// and decompressing them takes several times longer.
const BYTES_PER_THREAD: usize = 384 << 10;

/// The number of threads beyond which the bottleneck is memory, not computation.
const MAX_THREADS: usize = 4;

/// Returns the number of threads that an output of this size justifies.
pub(crate) fn threads_for(bytes: usize) -> usize {
    let threads = (bytes / BYTES_PER_THREAD).clamp(1, MAX_THREADS);
    if threads == 1 { 1 } else { threads.min(Pool::of_process().threads()) }
}

/// Runs `work` for each of the shares, on a thread for each share if that many are idle.
///
/// # Errors
/// Returns the error of the first share that has one, after all shares have ended.
pub(crate) fn on_threads<T: Send>(
    shares: Vec<T>,
    work: impl Fn(T) -> Result<(), ChunkFault> + Sync,
) -> Result<(), ChunkFault> {
    if shares.len() <= 1 {
        return shares.into_iter().try_for_each(work);
    }
    Pool::of_process().map(shares, work).into_iter().collect()
}
