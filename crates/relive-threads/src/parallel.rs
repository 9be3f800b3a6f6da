//! Threads for one piece of work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Runs `work` for every number below `count`, on at most `threads` threads, or on fewer if the system allows no more,
/// and returns the results in order. This thread is one of them.
pub fn parallel<R: Send>(threads: usize, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads.min(count) <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, work(number)));
        }
    };
    let mut done = thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads.min(count)).map_while(start).collect();
        let mut done = run();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Like [`parallel`], but begins no more work after an error, and returns the error of the lowest number that has one.
///
/// # Errors
/// The errors of `work`.
pub fn try_parallel<E: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let has_failed = AtomicBool::new(false);
    let unless_failed = |number| {
        if has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        work(number).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))
    };
    parallel(threads, count, unless_failed).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for (threads, count) in [(1, 5), (4, 0), (4, 1), (3, 100), (100, 3)] {
            let expected: Vec<usize> = (0..count).map(|number| number * 2).collect();
            assert_eq!(parallel(threads, count, |number| number * 2), expected);
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        for threads in [1, 2] {
            let begun = AtomicUsize::new(0);
            let work = |number| {
                begun.fetch_add(1, Ordering::Relaxed);
                if number < 3 { Ok(()) } else { Err(number) }
            };
            let failed = try_parallel(threads, 1000, work).unwrap_err();
            // Each thread may have begun one more before it saw the error.
            assert!(failed < 3 + threads && begun.into_inner() <= 3 + threads, "{failed} failed");
        }
    }
}
