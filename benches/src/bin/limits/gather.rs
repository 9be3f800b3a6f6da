//! Measures copies of rows from random places.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::rate::rate;

/// The table is larger than all caches.
const TABLE_BYTES: usize = 1 << 30;
const BATCH: usize = 256;
const ROW_BYTES: [usize; 4] = [400, 4_000, 40_000, 400_000];

/// Returns the rates by row size, as JSON.
pub(crate) fn measure(time: Duration) -> String {
    // The memory is written first, since all untouched pages map to the same zero page.
    let table = vec![1; TABLE_BYTES];
    let sizes = ROW_BYTES.map(|row_bytes| {
        let one = threads(&table, row_bytes, 1, time);
        let two = threads(&table, row_bytes, 2, time);
        format!(r#""{row_bytes}": {{"one_thread": {one:.0}, "two_threads": {two:.0}}}"#)
    });
    format!("{{{}}}", sizes.join(", "))
}

/// Returns the total rate of `count` threads that gather independently.
fn threads(table: &[u8], row_bytes: usize, count: u64, time: Duration) -> f64 {
    thread::scope(|scope| {
        let gather = |seed| scope.spawn(move || gather(table, row_bytes, seed, time));
        let running: Vec<_> = (0..count).map(gather).collect();
        running.into_iter().map(|thread| thread.join().expect("it only copies")).sum()
    })
}

fn gather(table: &[u8], row_bytes: usize, seed: u64, time: Duration) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let rows = table.len() / row_bytes;
    let mut array = vec![0; BATCH * row_bytes];
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < time {
        for row in array.chunks_exact_mut(row_bytes) {
            let begin = below(&mut random, rows) * row_bytes;
            row.copy_from_slice(&table[begin..begin + row_bytes]);
        }
        bytes += black_box(&array).len() as u64;
    }
    rate(bytes, start.elapsed())
}

fn below(random: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    usize::try_from(random.next_u64() % bound as u64).expect("less than a usize")
}
