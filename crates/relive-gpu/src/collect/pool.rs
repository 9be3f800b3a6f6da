//! A pool of threads for copying.
#![expect(
    unsafe_code,
    reason = "work that borrows is lent to threads that live longer; the block says why it is sound"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// How many times a thread checks for the next job before it sleeps. This takes a few microseconds, within which a busy
/// caller submits its next job.
const SPINS: usize = 2000;

type Work = dyn Fn(usize) + Sync;

/// Threads, including the caller's, that share the parts of one job at a time.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Serializes jobs.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The number of the latest job, for threads that spin.
    number: AtomicUsize,
    begun: Condvar,
    done: Condvar,
    next: AtomicUsize,
}

#[derive(Debug)]
struct State {
    job: Option<Job>,
    /// The number of threads that have not finished the latest job.
    busy: usize,
    stop: bool,
}

#[derive(Clone, Copy)]
struct Job {
    work: &'static Work,
    parts: usize,
    number: usize,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job {} of {} parts", self.number, self.parts)
    }
}

impl Pool {
    /// Creates a pool of `threads`, including the caller's.
    pub(super) fn new(threads: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { job: None, busy: 0, stop: false }),
            number: AtomicUsize::new(0),
            begun: Condvar::new(),
            done: Condvar::new(),
            next: AtomicUsize::new(0),
        });
        let mut pool = Self { shared, threads: Vec::new(), turn: Mutex::new(()) };
        for _ in 1..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let thread =
                std::thread::Builder::new().name("relive-collect".into()).spawn(move || shared.serve());
            pool.threads.push(thread.map_err(|error| Error::system("start a thread that collects", error))?);
        }
        Ok(pool)
    }

    /// Returns the number of threads, including the caller's.
    pub(super) fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs parts 0 to `parts - 1` of a job, and returns when all are done. `work` must not panic.
    pub(super) fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.threads.is_empty() {
            (0..parts).for_each(work);
            return;
        }
        let _turn = self.turn.lock();
        // SAFETY: only the lifetime changes. The threads have the reference from here until `finish` is dropped, which
        // waits until no thread has it, even if `work` panics in this thread.
        let lent = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Work>(work) };
        self.shared.begin(lent, parts, self.threads.len());
        let _finish = WaitForThreads(&self.shared);
        self.shared.take_parts(lent, parts);
    }
}

/// When dropped, waits until no thread is working on the job.
struct WaitForThreads<'a>(&'a Shared);

impl Drop for WaitForThreads<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        while state.busy > 0 {
            self.0.done.wait(&mut state);
        }
        state.job = None;
    }
}

/// Reports, when it is dropped, that a thread no longer has the job, even if the work panics.
struct LeaveJob<'a>(&'a Shared);

impl Drop for LeaveJob<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.busy -= 1;
        if state.busy == 0 {
            self.0.done.notify_one();
        }
    }
}

impl Shared {
    fn begin(&self, work: &'static Work, parts: usize, threads: usize) {
        let mut state = self.state.lock();
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.next.store(0, Ordering::Relaxed);
        state.job = Some(Job { work, parts, number });
        state.busy = threads;
        self.number.store(number, Ordering::Release);
        drop(state);
        self.begun.notify_all();
    }

    fn take_parts(&self, work: &Work, parts: usize) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return;
            }
            work(part);
        }
    }

    fn serve(&self) {
        let mut seen = 0;
        while let Some(job) = self.next_job(seen) {
            seen = job.number;
            let _leave = LeaveJob(self);
            self.take_parts(job.work, job.parts);
        }
    }

    /// Returns the job after the last one seen, or `None` once the pool has been dropped.
    fn next_job(&self, seen: usize) -> Option<Job> {
        for _ in 0..SPINS {
            if self.number.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(job) = state.job.filter(|job| job.number != seen) {
                return Some(job);
            }
            self.begun.wait(&mut state);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.number.fetch_add(1, Ordering::Release);
        self.shared.begun.notify_all();
        for thread in self.threads.drain(..) {
            // The thread panics only if the work has panicked, which has already been reported.
            let _: std::thread::Result<()> = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_part_is_processed_once() {
        for threads in 1..4 {
            let pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for parts in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicU64> = (0..parts).map(|_| AtomicU64::new(0)).collect();
                pool.run(parts, &|part| {
                    counts[part].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn several_callers_share_a_pool() {
        let pool = Pool::new(3).unwrap();
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(5, &|part| {
                            sum.fetch_add(part as u64, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * 200 * 10);
    }
}
