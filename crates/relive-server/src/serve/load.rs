//! The load of a thread by its connections, by which new connections are distributed over the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The weight of a connection of the bulk path, compared with one of gRPC. A client opens one of each, and the latter is
/// then nearly idle. If both counted the same, clients that connect one after the other would have all their connections
/// of the bulk path on one half of the threads.
const BULK_WEIGHT: usize = 8;

/// The load of one thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Load(Arc<AtomicUsize>);

impl Load {
    pub(super) fn total(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a connection whose protocol is not known yet, for as long as the returned share exists.
    pub(super) fn add_connection(&self) -> LoadShare {
        self.0.fetch_add(1, Ordering::Relaxed);
        LoadShare { load: self.clone(), weight: 1 }
    }
}

/// The share of a connection in the load of its thread; by default, of a connection that no thread counts.
#[derive(Debug, Default)]
pub(super) struct LoadShare {
    load: Load,
    weight: usize,
}

impl LoadShare {
    /// Counts the connection as one of the bulk path.
    pub(super) fn set_bulk(&mut self) {
        self.load.0.fetch_add(BULK_WEIGHT - self.weight, Ordering::Relaxed);
        self.weight = BULK_WEIGHT;
    }
}

impl Drop for LoadShare {
    fn drop(&mut self) {
        self.load.0.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_connect_one_after_the_other_are_spread_over_all_threads() {
        for threads in 1..=8 {
            let loads: Vec<Load> = (0..threads).map(|_| Load::default()).collect();
            let least = || (0..threads).min_by_key(|thread| loads[*thread].total()).unwrap();
            let (mut shares, mut bulk) = (Vec::new(), vec![0; threads]);
            for _ in 0..4 * threads {
                shares.push(loads[least()].add_connection());
                let thread = least();
                let mut share = loads[thread].add_connection();
                share.set_bulk();
                bulk[thread] += 1;
                shares.push(share);
            }
            assert!(bulk.iter().all(|of_thread| (3..=5).contains(of_thread)), "{bulk:?}");
            drop(shares);
            assert!(loads.iter().all(|load| load.total() == 0), "{loads:?}");
        }
    }
}
