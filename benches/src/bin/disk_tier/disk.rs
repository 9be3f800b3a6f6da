//! Plain reads of the tier's files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::fs::{Advice, fadvise};

use relive_benches::Outcome;

use crate::table::ITEM_BYTES;

fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder.join("spilled/segments"))?;
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()?)
}

/// Makes the system write the files to disk and remove them from its page cache.
pub(crate) fn forget(folder: &Path) -> Outcome {
    for path in files(folder)? {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Returns the bytes per second of reads with the size of an item, at random offsets.
pub(crate) fn read(folder: &Path, threads: u64, time: Duration) -> Outcome<f64> {
    let files: Vec<(File, u64)> = files(folder)?
        .into_iter()
        .map(|path| {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        })
        .collect::<std::io::Result<_>>()?;
    let begun = Instant::now();
    let reads: u64 = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|seed| {
                scope.spawn({
                    let files = &files;
                    move || reader(files, seed, time)
                })
            })
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().expect("reading does not panic"))
            .sum::<std::io::Result<u64>>()
    })?;
    Ok(reads as f64 * ITEM_BYTES as f64 / begun.elapsed().as_secs_f64())
}

fn reader(files: &[(File, u64)], seed: u64, time: Duration) -> std::io::Result<u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut buffer, mut reads, begun) = (vec![0; ITEM_BYTES], 0, Instant::now());
    while begun.elapsed() < time {
        let at = usize::try_from(rng.next_u64() % files.len() as u64).unwrap_or(0);
        let Some((file, size)) = files.get(at) else { continue };
        let room = size.saturating_sub(ITEM_BYTES as u64).max(1);
        file.read_exact_at(&mut buffer, rng.next_u64() % room)?;
        reads += 1;
    }
    Ok(reads)
}
