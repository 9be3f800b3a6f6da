//! Threads that wait for short work.
#![expect(
    unsafe_code,
    reason = "work that borrows is lent to threads that live longer; the block says why it is sound"
)]

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::{fmt, io, process};

use parking_lot::{Condvar, Mutex};

/// How many times a thread of a pool of its own checks for the next job before it sleeps. This takes at most a tenth of a
/// millisecond, within which a busy caller submits its next job. The threads of the process's pool sleep at once, because
/// others need the processors.
const SPINS: usize = 2000;

type Work = dyn Fn(usize) + Sync;

/// Threads, including the caller's, that share the parts of one job at a time.
///
/// A job never waits for a thread that has not begun: the caller takes every part that no other thread takes. Processes
/// that are forked from that of the pool have only their caller's thread, which runs all parts.
pub struct Pool {
    shared: Arc<Shared>,
    /// The largest number of threads, including the caller's.
    threads: usize,
    /// The other threads that have started. Locked while a job runs.
    others: Mutex<Vec<JoinHandle<()>>>,
    /// The process that has the threads.
    process: u32,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of the latest job, for threads that spin.
    number: AtomicUsize,
    begun: Condvar,
    done: Condvar,
    /// The next part of the job that no thread has taken.
    next: AtomicUsize,
    spins: usize,
}

#[derive(Default)]
struct State {
    /// The job that threads may join.
    job: Option<Job>,
    /// The number of threads that have joined the job and not left it.
    joined: usize,
    /// The first panic in a thread that has joined the job.
    panic: Option<Box<dyn Any + Send>>,
    stop: bool,
}

#[derive(Clone, Copy)]
struct Job {
    work: &'static Work,
    parts: usize,
    number: usize,
}

impl Pool {
    /// Creates a pool of `threads`, including the caller's.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn new(threads: usize) -> io::Result<Self> {
        let pool = Self::empty(threads.max(1), SPINS);
        for _ in 1..threads {
            pool.start(&mut pool.others.lock())?;
        }
        Ok(pool)
    }

    /// Returns the pool of this process, with at most one thread per processor. They start with the first job that has
    /// parts for them; if the system allows no more threads, there are fewer.
    pub fn of_process() -> &'static Self {
        static POOL: LazyLock<Pool> =
            LazyLock::new(|| Pool::empty(thread::available_parallelism().map_or(1, NonZero::get), 0));
        &POOL
    }

    fn empty(threads: usize, spins: usize) -> Self {
        let shared = Arc::new(Shared { spins, ..Shared::default() });
        Self { shared, threads, others: Mutex::default(), process: process::id() }
    }

    fn start(&self, others: &mut Vec<JoinHandle<()>>) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("relive-pool".to_owned()).spawn(move || shared.serve())?;
        others.push(thread);
        Ok(())
    }

    /// Returns the largest number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs parts 0 to `parts - 1` of a job, and returns when all are done. Parts begin in this order. If another job is
    /// running, the caller runs all parts.
    ///
    /// # Panics
    /// If `work` panics, with the same panic.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let useful = parts.min(self.threads) - usize::from(parts > 0);
        let is_here = || self.process == process::id();
        let turn = if useful > 0 && is_here() { self.others.try_lock() } else { None };
        let Some(mut others) = turn else { return (0..parts).for_each(work) };
        while others.len() < useful && self.start(&mut others).is_ok() {}
        // SAFETY: only the lifetime changes. The threads have the reference from here until `finish` is dropped, which
        // waits until no thread has it, even if `work` panics in this thread.
        let lent = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Work>(work) };
        self.shared.begin(lent, parts, useful);
        let finish = WaitForThreads(&self.shared);
        self.shared.take_parts(lent, parts);
        drop(finish);
        let panic = self.shared.state.lock().panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Returns the results of `work` for all parts, in their order.
    ///
    /// # Panics
    /// If `work` panics, with the same panic.
    pub fn map<T: Send, R: Send>(
        &self,
        parts: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let (parts, results): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (Mutex::new(Some(part)), Mutex::new(None))).unzip();
        self.run(parts.len(), &|number| {
            let part = parts[number].lock().take();
            *results[number].lock() = part.map(&work);
        });
        results.into_iter().filter_map(Mutex::into_inner).collect()
    }

    /// Returns the results of two pieces of work. The first begins before the second, which may therefore wait for it.
    ///
    /// # Panics
    /// If one of them panics, with the same panic.
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let (first, second) = (Mutex::new(Half::Work(first)), Mutex::new(Half::Work(second)));
        self.run(2, &|part| if part == 0 { Half::finish(&first) } else { Half::finish(&second) });
        match (first.into_inner(), second.into_inner()) {
            (Half::Done(first), Half::Done(second)) => (first, second),
            _ => unreachable!("every part of a job has run"),
        }
    }
}

/// One of two pieces of work.
enum Half<F, R> {
    Work(F),
    Begun,
    Done(R),
}

impl<F: FnOnce() -> R, R> Half<F, R> {
    fn finish(half: &Mutex<Self>) {
        let begun = std::mem::replace(&mut *half.lock(), Self::Begun);
        if let Self::Work(work) = begun {
            let result = work();
            *half.lock() = Self::Done(result);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

/// When dropped, lets no more threads join the job, and waits until those that have joined it have left it.
struct WaitForThreads<'a>(&'a Shared);

impl Drop for WaitForThreads<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.job = None;
        while state.joined > 0 {
            self.0.done.wait(&mut state);
        }
    }
}

impl Shared {
    fn begin(&self, work: &'static Work, parts: usize, threads: usize) {
        let mut state = self.state.lock();
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.next.store(0, Ordering::Relaxed);
        state.job = Some(Job { work, parts, number });
        // If the last caller panicked itself, the panic of a thread is still here.
        state.panic = None;
        self.number.store(number, Ordering::Release);
        drop(state);
        for _ in 0..threads {
            self.begun.notify_one();
        }
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
        while let Some(job) = self.join_job(seen) {
            seen = job.number;
            // The caller resumes the panic.
            let ended = catch_unwind(AssertUnwindSafe(|| self.take_parts(job.work, job.parts)));
            self.leave_job(ended.err());
        }
    }

    /// Joins the job after the last one seen. Returns `None` once the pool has been dropped.
    fn join_job(&self, seen: usize) -> Option<Job> {
        for _ in 0..self.spins {
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
                state.joined += 1;
                return Some(job);
            }
            self.begun.wait(&mut state);
        }
    }

    fn leave_job(&self, panic: Option<Box<dyn Any + Send>>) {
        let mut state = self.state.lock();
        state.joined -= 1;
        if state.panic.is_none() {
            state.panic = panic;
        }
        if state.joined == 0 {
            self.done.notify_one();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.number.fetch_add(1, Ordering::Release);
        self.shared.begun.notify_all();
        for thread in self.others.get_mut().drain(..) {
            // The caller has resumed every panic of the work.
            let _: thread::Result<()> = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    use super::*;

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
        thread::scope(|scope| {
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

    #[test]
    fn results_are_in_order_and_may_borrow() {
        let words = ["a", "bb", "ccc"].map(String::from);
        let pool = Pool::of_process();
        assert_eq!(pool.map(&words, String::len), [1, 2, 3]);
        assert_eq!(
            pool.map(words.iter().zip([1, 0, 2]), |(word, at)| word.get(at..)),
            [Some(""), Some("bb"), Some("c")]
        );
    }

    /// The first part only ends when a thread has taken the second.
    #[test]
    fn threads_take_parts() {
        let pool = Pool::new(2).unwrap();
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        pool.run(2, &|part| match part {
            0 => receiver.lock().recv().unwrap(),
            _ => sender.send(()).unwrap(),
        });
    }

    #[test]
    fn the_second_of_two_may_wait_for_the_first() {
        for pool in [Pool::new(1).unwrap(), Pool::new(2).unwrap()] {
            let (sender, receiver) = mpsc::channel();
            let first = move || {
                sender.send(3).unwrap();
                "first"
            };
            assert_eq!(pool.join(first, move || receiver.recv().unwrap()), ("first", 3));
        }
    }

    #[test]
    fn a_job_within_a_job_is_run_by_its_caller() {
        let pool = Pool::new(2).unwrap();
        let sums =
            pool.map([10, 20], |start| pool.map(0..3, |number| start + number).into_iter().sum::<i32>());
        assert_eq!(sums, [33, 63]);
    }

    #[test]
    fn a_caller_does_not_wait_for_the_job_of_another() {
        let pool = Pool::new(2).unwrap();
        // Both threads are in a job that does not end before the second job has.
        let (release, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let (begun, has_begun) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                pool.run(2, &|_| {
                    begun.send(()).unwrap();
                    wait.lock().recv().unwrap();
                });
            });
            has_begun.recv().unwrap();
            assert_eq!(pool.map([1, 2, 3], |number| number * 2), [2, 4, 6]);
            release.send(()).unwrap();
            release.send(()).unwrap();
            first.join().unwrap();
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(2).unwrap();
        for guilty in [0, 1] {
            // Both parts have begun before one of them panics.
            let both = std::sync::Barrier::new(2);
            let job = || {
                pool.run(2, &|part| {
                    both.wait();
                    assert!(part != guilty, "part {part}");
                });
            };
            let panic = catch_unwind(AssertUnwindSafe(job)).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), &format!("part {guilty}"));
            assert_eq!(pool.map([1, 2], |number| number + 1), [2, 3]);
        }
    }
}
