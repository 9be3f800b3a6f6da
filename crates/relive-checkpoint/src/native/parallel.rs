//! Work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` for every number below `count`, on at most `threads` threads, and returns the results in order.
pub(crate) fn parallel<R: Send>(threads: usize, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
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
    let mut done = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for worker in workers {
            done.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
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
}
