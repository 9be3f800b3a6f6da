//! Tests the tier on a real disk, and on a failing one.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use relive_tensor::{Chunk, Codec, ColdStore, Ledger, SequenceRange, Tensor, encode_chunk};

use super::Tier;
use crate::ErrorKind;
use crate::storage::disk::{Disk, DurableFile, RealDisk};

const ROW_BYTES: u32 = 40_000;

fn chunk(value: u32, ledger: &Arc<Ledger>) -> Arc<Chunk> {
    let row = Tensor::from_slice(&vec![value; (ROW_BYTES / 4) as usize], [1, ROW_BYTES / 4]).unwrap();
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let parts = encode_chunk(value.into(), range, &[row], false, Codec::Raw).unwrap();
    Arc::new(Chunk::new(parts).unwrap().with_ledger(Arc::clone(ledger)))
}

fn chunks(values: std::ops::Range<u32>, ledger: &Arc<Ledger>) -> Vec<Arc<Chunk>> {
    values.map(|value| chunk(value, ledger)).collect()
}

fn movable() -> Arc<Ledger> {
    Arc::new(Ledger::of_movable_chunks())
}

fn assert_whole(chunk: &Chunk) {
    let value = u32::try_from(chunk.key()).unwrap();
    assert!(chunk.frame().chunks(4).all(|number| number == value.to_le_bytes()), "chunk {value}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.join("spilled/segments");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn frames_are_unchanged_after_spilling_to_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::open(folder.path()).unwrap(), movable());
    let chunks = chunks(0..2_000, &ledger);
    let in_hand = chunks[0].frame();
    tier.store(&chunks).unwrap();
    assert_eq!(ledger.snapshot().resident_bytes(), u64::from(ROW_BYTES), "one is at hand");
    assert_eq!((chunks[0].frame().as_ptr(), chunks[0].is_stored()), (in_hand.as_ptr(), true));
    assert!(tier.size_bytes() > 2_000 * u64::from(ROW_BYTES));
    chunks.iter().for_each(|chunk| assert_whole(chunk));
    drop(in_hand);
    tier.store(&chunks[..1]).unwrap();
    assert_eq!(ledger.snapshot().resident_bytes(), 0);
    chunks.iter().for_each(|chunk| assert_whole(chunk));
}

#[test]
fn fetched_chunks_are_evicted_without_rewriting() {
    let folder = tempfile::tempdir().unwrap();
    // Tests files that stay open, and files that are opened for each read.
    let tier = Tier::on(Arc::new(RealDisk), folder.path(), 2).unwrap();
    let ledger = movable();
    let chunks = chunks(0..1_000, &ledger);
    chunks.chunks(250).for_each(|step| tier.store(step).unwrap());
    let size_bytes = tier.size_bytes();
    for picked in chunks.chunks(128) {
        let places: Vec<_> = picked.iter().map(|chunk| chunk.frame().as_ptr()).collect();
        let frames = tier.fetch(picked).unwrap();
        let held = u64::from(ROW_BYTES) * picked.len() as u64;
        assert_eq!((frames.len(), ledger.snapshot().resident_bytes()), (picked.len(), held));
        picked.iter().for_each(|chunk| assert_whole(chunk));
        tier.store(picked).unwrap();
        assert_eq!(ledger.snapshot().resident_bytes(), held, "they are at hand");
        drop(frames);
        tier.store(picked).unwrap();
        assert_eq!((ledger.snapshot().resident_bytes(), tier.size_bytes()), (0, size_bytes));
        let again: Vec<_> = picked.iter().map(|chunk| chunk.frame().as_ptr()).collect();
        assert_eq!(places, again);
    }
    assert_eq!(files(folder.path()).len(), 4);
}

#[test]
fn a_file_is_removed_with_its_last_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::open(folder.path()).unwrap(), movable());
    let (first, mut second) = (chunks(0..10, &ledger), chunks(10..20, &ledger));
    tier.store(&first).unwrap();
    tier.store(&second).unwrap();
    assert_eq!(files(folder.path()).len(), 2);
    drop(first);
    assert_eq!(files(folder.path()).len(), 1);
    let last = second.pop().unwrap();
    drop(second);
    tier.fetch(std::slice::from_ref(&last)).unwrap();
    assert_whole(&last);
    tier.store(std::slice::from_ref(&last)).unwrap();
    // A held frame outside memory keeps the file alive, even if its chunk is gone.
    let frame = Chunk::shared_frame(&last);
    drop((last, tier));
    assert_eq!(files(folder.path()).len(), 1);
    assert!(frame.chunks(4).all(|number| number == 19_u32.to_le_bytes()));
    drop(frame);
    assert_eq!(files(folder.path()).len(), 0);
}

#[test]
fn chunks_in_mostly_dead_segments_are_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::open(folder.path()).unwrap(), movable());
    let mut all = chunks(0..4_000, &ledger);
    all.chunks(500).for_each(|step| tier.store(step).unwrap());
    assert!(!tier.is_sparse());
    let mut place = 0;
    all.retain(|_| {
        place += 1;
        place % 10 == 0
    });
    assert!(tier.is_sparse() && all.iter().all(|chunk| tier.is_sparse_around(chunk)));
    tier.store(&all).unwrap();
    assert!(!tier.is_sparse() && !all.iter().any(|chunk| tier.is_sparse_around(chunk)));
    assert_eq!(files(folder.path()).len(), 1);
    assert_eq!(ledger.snapshot().spilled_bytes, 400 * u64::from(ROW_BYTES));
    tier.fetch(&all).unwrap();
    all.iter().for_each(|chunk| assert_whole(chunk));
}

#[test]
fn corrupted_chunks_are_not_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::open(folder.path()).unwrap(), movable());
    let chunks = chunks(0..20, &ledger);
    tier.store(&chunks).unwrap();
    let path = files(folder.path()).pop().unwrap();
    flip(&path, 10 * u64::from(ROW_BYTES));
    tier.store(&chunks).unwrap();
    let broken: Vec<_> =
        chunks.iter().filter(|chunk| tier.fetch(std::slice::from_ref(chunk)).is_err()).collect();
    assert_eq!((broken.len(), files(folder.path()).len()), (1, 2));
    assert!(!broken[0].is_resident() && tier.checked_frame(broken[0]).is_err());
}

#[test]
fn a_truncated_file_is_an_error() {
    for max_open_files in [0, 8] {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::on(Arc::new(RealDisk), folder.path(), max_open_files).unwrap();
        let ledger = movable();
        let chunks = chunks(0..20, &ledger);
        tier.store(&chunks).unwrap();
        let path = files(folder.path()).pop().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(10 * u64::from(ROW_BYTES)).unwrap();
        tier.fetch(&chunks[..9]).unwrap();
        let error = tier.fetch(&chunks).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains("the file ends inside the chunk 9"), "{error}");
        // None of these chunks is stored again.
        tier.store(&chunks[9..]).unwrap();
        assert_eq!(chunks.iter().filter(|chunk| tier.checked_frame(chunk).is_ok()).count(), 9);
    }
}

#[test]
fn a_deleted_file_is_still_readable() {
    for max_open_files in [0, 8] {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::on(Arc::new(RealDisk), folder.path(), max_open_files).unwrap();
        let chunks = chunks(0..20, &movable());
        tier.store(&chunks).unwrap();
        tier.close();
        assert_eq!(files(folder.path()).len(), 0);
        assert_eq!(tier.fetch(&chunks).unwrap().len(), 20);
        chunks.iter().for_each(|chunk| assert_whole(chunk));
        tier.store(&chunks).unwrap();
        assert!(chunks.iter().all(|chunk| !chunk.is_resident()), "they have places");
    }
}

#[test]
fn many_threads_fetch_and_store_the_same_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::on(Arc::new(RealDisk), folder.path(), 1).unwrap(), movable());
    let chunks = chunks(0..40, &ledger);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (tier, mut chunks) = (&tier, chunks.clone());
            scope.spawn(move || {
                for round in 0..200 {
                    // Each thread releases different chunks at different times.
                    chunks.rotate_left(7 + thread);
                    match (round + thread) % 3 {
                        0 => tier.store(&chunks[..20]).unwrap(),
                        _ => {
                            let frames = tier.fetch(&chunks[..10]).unwrap();
                            chunks.iter().for_each(|chunk| assert_whole(chunk));
                            drop(frames);
                        }
                    }
                }
            });
        }
    });
    tier.store(&chunks).unwrap();
    assert_eq!(ledger.snapshot().resident_bytes(), 0);
    assert_eq!(tier.fetch(&chunks).unwrap().len(), 40);
    assert_eq!(ledger.snapshot().spilled_bytes, 0);
    drop(chunks);
    assert_eq!((files(folder.path()).len(), tier.size_bytes()), (0, 0));
}

/// A step of a random history. Numbers refer to chunks.
#[derive(Clone, Debug)]
enum Step {
    Store(Vec<usize>),
    Fetch(Vec<usize>),
    Drop,
    Replace(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || proptest::collection::vec(0..12_usize, 1..8);
    let step = prop_oneof![
        3 => some().prop_map(Step::Store),
        3 => some().prop_map(Step::Fetch),
        1 => Just(Step::Drop),
        1 => (0..12_usize).prop_map(Step::Replace),
    ];
    proptest::collection::vec(step, 0..40)
}

/// The expected state of a chunk: whether it has a place, whether it is outside memory, and how many references to it
/// exist.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct ExpectedChunk {
    is_stored: bool,
    is_away: bool,
    is_held: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunks_are_in_memory_or_on_disk_as_expected(steps in steps(), max_open_files in 0..3_u64) {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::on(Arc::new(RealDisk), folder.path(), max_open_files).unwrap();
        let (ledger, mut held, mut next) = (movable(), Vec::new(), 12);
        let (mut chunks, mut known) = (chunks(0..12, &ledger), vec![ExpectedChunk::default(); 12]);
        for step in steps {
            match step {
                Step::Store(mut picked) => {
                    picked.sort_unstable();
                    picked.dedup();
                    tier.store(&picked.iter().map(|&at| Arc::clone(&chunks[at])).collect::<Vec<_>>()).unwrap();
                    for at in picked {
                        let is_away = known[at].is_away || !known[at].is_held;
                        known[at] = ExpectedChunk { is_stored: true, is_away, ..known[at] };
                    }
                }
                Step::Fetch(picked) => {
                    let picked_chunks: Vec<_> = picked.iter().map(|&at| Arc::clone(&chunks[at])).collect();
                    held.push(tier.fetch(&picked_chunks).unwrap());
                    for at in picked {
                        let ExpectedChunk { is_stored, is_held, .. } = known[at];
                        known[at] = ExpectedChunk { is_stored, is_away: false, is_held: is_stored || is_held };
                    }
                }
                Step::Drop => {
                    held.clear();
                    known.iter_mut().for_each(|known| known.is_held = false);
                }
                Step::Replace(at) => {
                    (chunks[at], known[at]) = (chunk(next, &ledger), ExpectedChunk::default());
                    next += 1;
                }
            }
            for (chunk, known) in chunks.iter().zip(&known) {
                assert_whole(chunk);
                let found = (chunk.is_stored(), !chunk.is_resident(), tier.place_of(chunk).is_some());
                prop_assert_eq!(found, (known.is_stored, known.is_away, known.is_stored));
            }
            let away = known.iter().filter(|known| known.is_away).count();
            prop_assert_eq!(ledger.snapshot().spilled_bytes, away as u64 * u64::from(ROW_BYTES));
        }
        drop((chunks, held));
        prop_assert_eq!((files(folder.path()).len(), tier.size_bytes(), ledger.snapshot().chunks), (0, 0, 0));
    }
}

#[test]
fn a_changed_byte_is_detected_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (tier, ledger) = (Tier::open(folder.path()).unwrap(), movable());
    let chunks = chunks(0..8, &ledger);
    tier.store(&chunks).unwrap();
    let path = files(folder.path()).pop().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let mut found = 0;
    for offset in (0..size).step_by(1_777) {
        flip(&path, offset);
        let error = chunks.iter().filter_map(|chunk| tier.fetch(std::slice::from_ref(chunk)).err()).next();
        if let Some(error) = error {
            found += 1;
            let text = error.to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains("is corrupt"), "{text}");
        } else {
            // The bytes other than the frames: the header, lengths and checksums.
            chunks.iter().for_each(|chunk| assert_whole(chunk));
        }
        flip(&path, offset);
    }
    assert!(found > 170, "{found}");
    tier.fetch(&chunks).unwrap();
}

fn flip(path: &Path, offset: u64) {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&[byte[0] ^ 16]).unwrap();
}

#[test]
fn a_folder_has_one_owner_and_leftover_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path()).unwrap();
    assert_eq!(Tier::open(folder.path()).unwrap_err().kind(), ErrorKind::InUse);
    drop(tier);
    let segments = folder.path().join("spilled/segments");
    let left = segments.join(format!("{}.chunks", "0f".repeat(16)));
    let foreign = segments.join("notes.chunks");
    fs::write(&left, "left by a process that was killed").unwrap();
    fs::write(&foreign, "somebody's").unwrap();
    let _tier = Tier::open(folder.path()).unwrap();
    assert!(!left.exists() && foreign.exists());
}

/// Accepts this many bytes in total.
struct SmallDisk(Arc<std::sync::atomic::AtomicUsize>);

struct SmallFile {
    file: Box<dyn DurableFile>,
    left: Arc<std::sync::atomic::AtomicUsize>,
}

impl Write for SmallFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.load(std::sync::atomic::Ordering::SeqCst);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write(&bytes[..bytes.len().min(left)])?;
        self.left.fetch_sub(written, std::sync::atomic::Ordering::SeqCst);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DurableFile for SmallFile {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

impl Disk for SmallDisk {
    fn create_folders(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_folders(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
        let file = RealDisk.create_file(path)?;
        Ok(Box::new(SmallFile { file, left: Arc::clone(&self.0) }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_folder(path)
    }
}

#[test]
fn a_full_disk_keeps_chunks_in_memory_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tier = Tier::on(Arc::new(SmallDisk(Arc::clone(&left))), folder.path(), 8).unwrap();
    let ledger = movable();
    let chunks = chunks(0..10, &ledger);
    for bytes in [0, 7, 32, 40, 100, 100_000, 400_000] {
        left.store(bytes, std::sync::atomic::Ordering::SeqCst);
        let error = tier.store(&chunks).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert_eq!((files(folder.path()).len(), ledger.snapshot().spilled_bytes), (0, 0));
    }
    left.store(1 << 20, std::sync::atomic::Ordering::SeqCst);
    tier.store(&chunks).unwrap();
    chunks.iter().for_each(|chunk| assert_whole(chunk));
}

#[test]
fn unmovable_chunks_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path()).unwrap();
    let fixed = chunks(0..3, &Arc::default());
    tier.store(&fixed).unwrap();
    tier.fetch(&fixed).unwrap();
    assert_eq!(files(folder.path()).len(), 0);
}

#[test]
fn segments_of_checkpoints_are_not_treated_as_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    let segments = folder.path().join("spilled/segments");
    fs::create_dir_all(&segments).unwrap();
    let segment = segments.join(format!("{}.chunks", "0f".repeat(16)));
    fs::write(&segment, "a checkpoint's").unwrap();
    fs::write(folder.path().join("spilled/checkpoint-0000000001.relive"), "").unwrap();
    let error = Tier::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Location);
    assert!(error.to_string().contains("checkpoint-0000000001.relive"), "{error}");
    assert!(segment.exists());
}
