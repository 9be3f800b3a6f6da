//! Tests checkpoints of tables that are partly in a disk tier.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Folder, chunk_of, contents, save_as_reverb, snapshot, table, trajectory};
use relive_checkpoint::{ErrorKind, Format, LoadOptions, Root, Store, Tier, load};
use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, TableConfig};
use relive_tensor::{Chunk, Codec, ColdStore, Ledger, SequenceRange, Tensor, encode_chunk};

const ROW_BYTES: u32 = 40_000;

fn chunk(key: u64, ledger: &Arc<Ledger>) -> Arc<Chunk> {
    let values: Vec<u32> = (0..ROW_BYTES / 4).map(|place| place ^ u32::try_from(key).unwrap()).collect();
    let row = Tensor::from_slice(&values, [1, ROW_BYTES / 4]).unwrap();
    let range = SequenceRange { episode_id: key / 10, start: 0, end: 0, sparse: false };
    let parts = encode_chunk(key, range, &[row], false, Codec::Raw).unwrap();
    Arc::new(Chunk::new(parts).unwrap().with_ledger(Arc::clone(ledger)))
}

fn chunks(ledger: &Arc<Ledger>) -> Vec<Arc<Chunk>> {
    (0..300).map(|key| chunk(key, ledger)).collect()
}

/// Returns two tables, the second of which shares every third chunk.
fn tables(chunks: &[Arc<Chunk>]) -> Snapshot {
    let one = |chunk: &Arc<Chunk>| trajectory(std::slice::from_ref(chunk));
    let some = chunks.iter().step_by(3).map(one);
    snapshot(vec![table(TableConfig::new("a"), chunks.iter().map(one)), table(TableConfig::new("b"), some)])
}

fn save(store: &Store, chunks: &[Arc<Chunk>]) -> SavedCheckpoint {
    store.save(tables(chunks), &CheckpointProgress::default()).unwrap()
}

fn assert_loads(root: &Path, chunks: &[Arc<Chunk>], options: &LoadOptions) -> Snapshot {
    let loaded = Store::open(root.to_str().unwrap()).unwrap().load_latest(options).unwrap().unwrap();
    assert_eq!(contents(&loaded.snapshot), contents(&tables(chunks)));
    loaded.snapshot
}

fn movable() -> Arc<Ledger> {
    Arc::new(Ledger::of_movable_chunks())
}

#[test]
fn spill_files_are_reused_for_checkpoints() {
    let folder = Folder::new();
    let (root, ledger) = (folder.join("checkpoints"), movable());
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let chunks = chunks(&ledger);
    tier.store(&chunks[..100]).unwrap();
    tier.store(&chunks[100..200]).unwrap();
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(Arc::clone(&tier));
    let first = save(&store, &chunks);
    let (third, whole) = (100 * u64::from(ROW_BYTES), 300 * u64::from(ROW_BYTES));
    assert!((third..third * 11 / 10).contains(&first.written_bytes), "{first:?}");
    assert!((whole..whole * 11 / 10).contains(&first.total_bytes), "{first:?}");
    // The other chunks are in a segment of the checkpoint, and are not written again after they move to the tier.
    tier.store(&chunks[200..]).unwrap();
    let second = save(&store, &chunks);
    assert!(second.written_bytes < third / 10, "{second:?}");
    drop(store);
    assert_loads(&root, &chunks, &LoadOptions::new());
    // Checkpoints remain valid without the tier and its files.
    let expected = contents(&tables(&chunks));
    drop((chunks, tier));
    let loaded =
        Store::open(root.to_str().unwrap()).unwrap().load_latest(&LoadOptions::new()).unwrap().unwrap();
    assert_eq!(contents(&loaded.snapshot), expected);
}

#[test]
fn files_of_fetched_chunks_are_reused_for_checkpoints() {
    let folder = Folder::new();
    let (root, ledger) = (folder.join("checkpoints"), movable());
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let chunks = chunks(&ledger);
    tier.store(&chunks).unwrap();
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(Arc::clone(&tier));
    let saved = std::thread::scope(|scope| {
        // Chunks move to and from the tier while the checkpoint is being written.
        let mover = scope.spawn(|| {
            for some in chunks.chunks(30).cycle().take(100) {
                drop(tier.fetch(some).unwrap());
                tier.store(&some[..10]).unwrap();
            }
        });
        let saved = save(&store, &chunks);
        mover.join().unwrap();
        saved
    });
    assert!(saved.written_bytes < 30 * u64::from(ROW_BYTES), "{saved:?}");
    assert!(ledger.snapshot().resident_bytes() > 0);
    drop(store);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

#[test]
fn a_mostly_empty_spill_file_is_not_reused() {
    let folder = Folder::new();
    let (root, tier, mut chunks) = stored(&folder);
    chunks.truncate(30);
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(tier);
    let saved = save(&store, &chunks);
    assert!(saved.total_bytes < 40 * u64::from(ROW_BYTES), "{saved:?}");
    drop(store);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

#[test]
fn bytes_corrupted_on_disk_get_no_new_checksum() {
    let folder = Folder::new();
    let (root, ledger) = (folder.join("checkpoints"), movable());
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let mut chunks = chunks(&ledger);
    tier.store(&chunks).unwrap();
    chunks.truncate(30);
    let file = tier_file(&folder);
    corrupt(&file);
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(tier);
    let error = store.save(tables(&chunks), &CheckpointProgress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert!(store.load_latest(&LoadOptions::new()).unwrap().is_none());
}

#[test]
fn a_checkpoint_larger_than_memory_is_loaded_into_the_tier() {
    let folder = Folder::new();
    let root = folder.join("checkpoints");
    let chunks = chunks(&Arc::default());
    save(&Store::open(root.to_str().unwrap()).unwrap(), &chunks);
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let budget = 10 * u64::from(ROW_BYTES);
    let loaded = assert_loads(&root, &chunks, &LoadOptions::new().tier(Arc::clone(&tier), budget));
    assert!(loaded.ledger.snapshot().resident_bytes() <= budget);
    assert!(tier.size_bytes() > 290 * u64::from(ROW_BYTES));
    let roomy = assert_loads(&root, &chunks, &LoadOptions::new().tier(tier, 1 << 30));
    assert_eq!(roomy.ledger.snapshot().spilled_bytes, 0);
}

#[test]
fn a_removed_file_is_copied_from_memory() {
    let folder = Folder::new();
    let (root, tier, chunks) = stored(&folder);
    std::fs::remove_dir_all(folder.join("spilled")).unwrap();
    save(&Store::open(root.to_str().unwrap()).unwrap().tier(tier), &chunks);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

/// Stores chunks in the tier of a folder. Returns the root of its checkpoints, the tier and the chunks.
fn stored(folder: &Path) -> (PathBuf, Arc<Tier>, Vec<Arc<Chunk>>) {
    let (tier, chunks) = (Arc::new(Tier::open(folder).unwrap()), chunks(&movable()));
    tier.store(&chunks).unwrap();
    (folder.join("checkpoints"), tier, chunks)
}

/// Returns the only file of a tier.
fn tier_file(folder: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(folder.join("spilled/segments")).unwrap();
    files.next().unwrap().unwrap().path()
}

fn corrupt(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[500_000] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_copy_corrupted_on_disk_does_not_matter_while_the_chunk_is_in_memory() {
    let folder = Folder::new();
    let (root, tier, mut chunks) = stored(&folder);
    // The file is mostly empty, so the checkpoint does not reuse it.
    chunks.truncate(30);
    drop(tier.fetch(&chunks).unwrap());
    corrupt(&tier_file(&folder));
    save(&Store::open(root.to_str().unwrap()).unwrap().tier(tier), &chunks);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

#[test]
fn corrupted_chunks_are_not_written_in_the_format_of_dm_reverb() {
    let folder = Folder::new();
    let (root, tier, chunks) = stored(&folder);
    let file = tier_file(&folder);
    corrupt(&file);
    let store = Root::new(root.to_str().unwrap()).format(Format::Reverb).tier(Arc::clone(&tier));
    let error = store.save(tables(&chunks), &CheckpointProgress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert!(store.load_latest(&LoadOptions::new()).unwrap().is_none());
    let intact = &chunks[100..];
    store.save(tables(intact), &CheckpointProgress::default()).unwrap();
    let loaded = store.load_latest(&LoadOptions::new()).unwrap().unwrap();
    assert_eq!(contents(&loaded.snapshot), contents(&tables(intact)));
}

#[test]
fn a_failed_checkpoint_does_not_keep_spill_files() {
    let folder = Folder::new();
    let (root, tier, chunks) = stored(&folder);
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(tier);
    // A folder with the name of the unfinished file makes writing the file impossible.
    let obstacle = root.join(".checkpoint-0000000001.relive.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    let error = store.save(tables(&chunks), &CheckpointProgress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(std::fs::read_dir(root.join("segments")).unwrap().count(), 0);
    std::fs::remove_dir(obstacle).unwrap();
    let saved = save(&store, &chunks);
    assert!(saved.written_bytes < saved.total_bytes / 2, "the files are taken over again: {saved:?}");
    drop(store);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

#[test]
fn chunks_are_not_written_again_after_an_outage_of_the_storage() {
    let folder = Folder::new();
    let (root, chunks) = (folder.join("checkpoints"), chunks(&movable()));
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let store = Store::open(root.to_str().unwrap()).unwrap().tier(tier);
    save(&store, &chunks);
    // A file with the name of the segments' folder makes it impossible to list and to write them.
    let (segments, aside) = (root.join("segments"), root.join("aside"));
    std::fs::rename(&segments, &aside).unwrap();
    std::fs::write(&segments, "").unwrap();
    let error = store.save(tables(&chunks), &CheckpointProgress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    std::fs::remove_file(&segments).unwrap();
    std::fs::rename(&aside, &segments).unwrap();
    let saved = save(&store, &chunks);
    assert!(saved.written_bytes < saved.total_bytes / 10, "{saved:?}");
    drop(store);
    assert_loads(&root, &chunks, &LoadOptions::new());
}

#[test]
fn large_chunks_in_the_format_of_dm_reverb_are_loaded_into_several_files_of_the_tier() {
    let folder = Folder::new();
    let root = folder.join("checkpoints");
    let large = |key| {
        // The format compresses the chunks, but these numbers are in no order.
        let values = (0..17 << 18).map(|place: u32| place.wrapping_mul(place | 1).wrapping_mul(0x9e37_79b9));
        let rows = Tensor::from_slice(&values.collect::<Vec<_>>(), [17, 1 << 18]).unwrap();
        chunk_of(key, &[rows], false, Codec::Raw)
    };
    let items = [1, 2, 3].map(|key| trajectory(&[large(key)]));
    let saved = save_as_reverb(&root, &snapshot(vec![table(TableConfig::new("a"), items)]));
    let tier = Arc::new(Tier::open(&*folder).unwrap());
    let options = LoadOptions::new().tier(tier, 0);
    let loaded = load(saved.to_str().unwrap(), &options).unwrap();
    assert_eq!(loaded.snapshot.ledger.snapshot().resident_bytes(), 0);
    assert_eq!(std::fs::read_dir(folder.join("spilled/segments")).unwrap().count(), 2);
}
