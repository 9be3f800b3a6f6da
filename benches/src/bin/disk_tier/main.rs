//! Measures a table that is larger than memory: batches of items, most of which are on disk, compared with plain reads
//! of the same files.
//!
//! ```console
//! $ cargo run --release -p relive-benches --bin disk_tier -- /data/spill 8 2 20
//! ```
//!
//! Arguments: a folder on the disk, the table's size in gigabytes, the gigabytes of it that may be in memory, and the
//! seconds for each measurement. Items have 40 kB of random bytes; batches of 256 are drawn uniformly and decoded into
//! one array. The plain reads are of 40 kB each, at random offsets of the tier's files, by one thread and by two.
//! Batches and plain reads are measured with the page cache as it is, and after it was cleared.

mod disk;
mod memory;
mod table;

use std::path::Path;
use std::time::Duration;

use relive_benches::Outcome;

/// As in the server: the C library's allocator does not return the memory of small blocks to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, table, budget, seconds] = args.as_slice() else {
        return Err("usage: disk_tier FOLDER TABLE_GB BUDGET_GB SECONDS".into());
    };
    let (table, budget) = (gigabytes(table)?, gigabytes(budget)?);
    let time = Duration::from_secs(seconds.parse()?);
    let folder = Path::new(folder);
    let before = memory::resident_bytes()?;
    let watch = memory::Watch::begin();
    let filled = table::Filled::new(folder, table, budget)?;
    println!(
        "filled at {:.2} GB/s, memory then {:.2} GB",
        filled.rate / 1e9,
        memory::resident_bytes()? as f64 / 1e9
    );
    for is_cold in [false, true] {
        let cache = if is_cold { "cache dropped" } else { "cache as it is" };
        let drop_cache = || if is_cold { disk::forget(folder) } else { Ok(()) };
        drop_cache()?;
        let batches = filled.sample(time)?;
        let mut reads = [0.0; 2];
        for (threads, rate) in (1..).zip(&mut reads) {
            drop_cache()?;
            *rate = disk::read(folder, threads, time)?;
        }
        let [one, two] = reads;
        println!(
            "{cache}: batches {:.2} GB/s, reads {:.2} GB/s by one thread, {:.2} by two: {:.0} % and {:.0} % of them",
            batches / 1e9,
            one / 1e9,
            two / 1e9,
            100.0 * batches / one,
            100.0 * batches / two,
        );
    }
    let peak = watch.end();
    println!(
        "memory at most {:.2} GB, {:.0} MB beyond the budget; {:.0} MB of it were there before",
        peak as f64 / 1e9,
        (peak as f64 - budget as f64) / 1e6,
        before as f64 / 1e6
    );
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few gigabytes")]
fn gigabytes(text: &str) -> Outcome<u64> {
    Ok((text.parse::<f64>()? * 1e9) as u64)
}
