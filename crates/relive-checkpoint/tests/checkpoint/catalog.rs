//! Tests the inspection of checkpoints in Relive's format: listing, inspecting, verifying and pruning.

#![expect(clippy::unwrap_used, reason = "a test all over")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use relive_checkpoint::{Catalog, ErrorKind, Format, LoadOptions, Older, Root, Store, Target, list, locate};
use relive_table::{CheckpointProgress, ItemStructure, Snapshot, TableConfig};
use relive_tensor::Nest;

use crate::support::{Folder, chunk, contents, fixtures, save_as_reverb, small, snapshot, table, trajectory};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn save(store: &Store, snapshot: &Snapshot) -> String {
    store.save(snapshot.clone(), &CheckpointProgress::default()).unwrap().location
}

/// Returns tables of this many items with one chunk each.
fn counted(items: u16) -> Snapshot {
    let items = (0..items).map(|number| trajectory(&[chunk(number.into(), number.into(), 3)]));
    snapshot(vec![table(TableConfig::new("counted"), items)])
}

#[test]
fn ls_shows_each_checkpoint_and_damage() {
    let root = Folder::new();
    let store = Store::open(text(&root)).unwrap();
    let [first, second] = [save(&store, &counted(3)), save(&store, &counted(5))];
    fs::write(&first, "damaged").unwrap();
    // Listing takes no lock.
    let listed = Catalog::open(text(&root)).unwrap().checkpoints().unwrap();
    let actual: Vec<_> = listed.iter().map(|info| (info.location.as_str(), info.size_bytes)).collect();
    assert_eq!(actual, [(first.as_str(), 7), (second.as_str(), fs::metadata(&second).unwrap().len())]);
    let error = listed[0].summary.as_ref().unwrap_err();
    assert_eq!(error.to_string(), format!("{first}, at byte 0: it is truncated: it has 7 bytes"));
    let summary = listed[1].summary.as_ref().unwrap();
    assert_eq!((summary.items, summary.chunks, summary.segments, summary.tables.len()), (5, Some(5), 1, 1));
    assert_eq!(summary.tables[0].items, 5);
    let chunk_bytes = summary.chunk_bytes.unwrap();
    assert!(summary.total_bytes > chunk_bytes && chunk_bytes > 5 * 12);
    assert!(summary.created_at.as_nanos() > 1_700_000_000_000_000_000);
}

#[test]
fn inspect_shows_the_contents_with_a_few_items() {
    let root = Folder::new();
    let store = Store::open(text(&root)).unwrap();
    let saved = small();
    let location = save(&store, &saved);
    save(&store, &counted(100));
    let shown = Catalog::open(&location).unwrap().inspect(10).unwrap();
    assert_eq!((shown.location.as_str(), shown.tables.len()), (location.as_str(), 2));
    let [a, b] = shown.tables.as_slice() else { panic!("two tables") };
    assert_eq!((a.summary.config.name.as_str(), a.summary.items, a.chunks, a.sample.len()), ("a", 2, 2, 2));
    assert_eq!((b.summary.counters, b.chunks), (saved.tables[1].counters, 1));
    assert!(b.chunk_bytes < a.chunk_bytes);
    assert_eq!(
        a.sample[0].data.trajectory.decode().unwrap(),
        saved.tables[0].items[0].data.trajectory.decode().unwrap()
    );
    let newest = Catalog::open(text(&root)).unwrap();
    let keys = |sample: usize| -> Vec<u64> {
        newest.inspect(sample).unwrap().tables[0].sample.iter().map(|item| item.data.key).collect()
    };
    assert_eq!(keys(0), [0; 0]);
    assert_eq!(keys(5), [10, 11, 12, 108, 109], "the first ones and the last ones");
    assert_eq!(keys(1000).len(), 100);
}

#[test]
fn verify_reads_every_byte_including_shared_segments() {
    let root = Folder::new();
    let store = Store::open(text(&root)).unwrap();
    save(&store, &counted(50));
    let loaded = store.load_latest(&LoadOptions::new()).unwrap().unwrap();
    let mut fewer = loaded.snapshot;
    fewer.tables[0].items.truncate(40);
    let location = save(&store, &fewer);
    let progress = CheckpointProgress::default();
    let report = Catalog::open(&location).unwrap().verify(&progress).unwrap();
    assert!(report.is_whole());
    assert_eq!((report.items, report.chunks, report.files), (40, 40, 2));
    let segment = fs::read_dir(root.join("segments")).unwrap().next().unwrap().unwrap().path();
    let sizes = [Path::new(&location), &segment].map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(report.bytes, sizes.iter().sum::<u64>());
    let counts = progress.counts();
    assert_eq!((counts.bytes_done, counts.items_done), (counts.bytes_total, 40));
    // The last chunk belongs to the first checkpoint alone.
    let mut bytes = fs::read(&segment).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&segment, bytes).unwrap();
    let report = Catalog::open(&location).unwrap().verify(&progress).unwrap();
    let [loss] = report.losses.as_slice() else { panic!("{:?}", report.losses) };
    assert_eq!((loss.file.as_str(), loss.items, &loss.table), (text(&segment), 0, &None));
    assert!(loss.reason.ends_with("wrong checksum (in a part that this checkpoint does not use)"), "{loss}");
    let first = Catalog::open(text(&root.join("checkpoint-0000000001.relive"))).unwrap();
    let report = first.verify(&progress).unwrap();
    let [loss] = report.losses.as_slice() else { panic!("{:?}", report.losses) };
    assert_eq!((loss.items, loss.table.as_deref()), (1, Some("counted")));
    assert!(first.load(&LoadOptions::new()).is_err());
    let salvaged = first.load(&LoadOptions::new().salvage(true)).unwrap().unwrap();
    assert_eq!(
        (salvaged.snapshot.tables[0].items.len(), salvaged.losses.as_slice()),
        (49, [loss.clone()].as_slice())
    );
    assert_eq!(salvaged.snapshot.tables[0].counters.deletes, fewer_deletes() + 1);
}

#[test]
fn verify_does_not_count_a_missing_segment_and_still_ends() {
    let root = Folder::new();
    let location = save(&Store::open(text(&root)).unwrap(), &counted(50));
    let segment = fs::read_dir(root.join("segments")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&segment).unwrap();
    let progress = CheckpointProgress::default();
    let report = Catalog::open(&location).unwrap().verify(&progress).unwrap();
    assert!(!report.is_whole());
    let counts = progress.counts();
    assert_eq!((report.files, counts.bytes_done), (1, counts.bytes_total));
}

fn fewer_deletes() -> i64 {
    counted(1).tables[0].counters.deletes
}

#[test]
fn old_checkpoints_are_pruned_and_shared_segments_stay() {
    let root = Folder::new();
    let store = Store::open(text(&root)).unwrap().keep(9);
    for items in [30, 20, 10] {
        save(&store, &counted(items));
    }
    let catalog = Catalog::open(text(&root)).unwrap();
    assert_eq!(catalog.prune(2).unwrap_err().kind(), ErrorKind::InUse, "a server writes here");
    drop(store);
    let pruned = catalog.prune(2).unwrap();
    let first = root.join("checkpoint-0000000001.relive");
    assert_eq!((pruned.checkpoints, pruned.segments), (vec![text(&first).to_owned()], 1));
    assert!(pruned.bytes > 0);
    assert_eq!(catalog.prune(0).unwrap().checkpoints.len(), 1, "the newest always stays");
    assert_eq!(
        contents(&catalog.load(&LoadOptions::new()).unwrap().unwrap().snapshot),
        contents(&counted(10))
    );
    assert_eq!(catalog.prune(1).unwrap().bytes, 0);
}

#[test]
fn locations_without_checkpoints_are_reported() {
    let root = Folder::new();
    let nowhere = Catalog::open(text(&root.join("nowhere"))).unwrap();
    assert_eq!(nowhere.checkpoints().unwrap().len(), 0);
    assert!(nowhere.load(&LoadOptions::new()).unwrap().is_none());
    let error = nowhere.verify(&CheckpointProgress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Location);
    assert_eq!(error.to_string(), format!("{}: there is no checkpoint here", root.join("nowhere").display()));
    let missing = root.join("checkpoint-0000000007.relive");
    let error = Catalog::open(text(&missing)).unwrap().load(&LoadOptions::new()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}, at byte 0: the file is missing", missing.display()));
}

#[test]
fn formats_are_detected() {
    let (root, other) = (Folder::new(), Folder::new());
    let format = |location: &str| locate(location).unwrap().format();
    assert_eq!(format(text(&root)), None);
    assert!(locate(text(&root.join("nowhere"))).is_err());
    let location = save(&Store::open(text(&root)).unwrap(), &small());
    assert_eq!((format(text(&root)), format(&location)), (None, Some(Format::Relive)));
    let folder = save_as_reverb(&other, &small());
    assert_eq!((format(text(&other)), format(text(&folder))), (None, Some(Format::Reverb)));
    assert_eq!(format(text(&fixtures().join("current"))), Some(Format::Reverb));
    assert_eq!(Format::Reverb.to_string(), "reverb");
}

#[test]
fn progress_ends_at_the_announced_total() {
    let root = Folder::new();
    let store = Store::open(text(&root)).unwrap();
    let progress = CheckpointProgress::default();
    store.save(counted(30), &progress).unwrap();
    let counts = progress.counts();
    assert_eq!((counts.items_done, counts.items_total), (30, 30));
    assert_eq!(counts.bytes_done, counts.bytes_total);
    let progress = Arc::new(progress);
    let options = LoadOptions::new().progress(progress.clone());
    store.load_latest(&options).unwrap().unwrap();
    assert_eq!(progress.counts(), counts, "the counts begin again");
}

#[test]
fn a_new_checkpoint_sorts_last_whatever_the_clock_says() {
    let root = Folder::new();
    let save = |format, items| {
        let root = Root::new(text(&root)).format(format).keep(9);
        root.save(counted(items), &CheckpointProgress::default()).unwrap().location
    };
    let theirs = save(Format::Reverb, 1);
    fs::rename(theirs, root.join("2100-06-01T11:00:00+00:00")).unwrap();
    let mut made = vec![save(Format::Relive, 2), save(Format::Relive, 3), save(Format::Reverb, 4)];
    made.extend([save(Format::Reverb, 5), save(Format::Relive, 6)]);
    // The name contains the local hour.
    assert!(made[2].contains("/2100-06-0") && made[2].contains(":00.000000003"), "{made:?}");
    let listed = list(text(&root)).unwrap();
    let locations: Vec<_> = listed.iter().skip(1).map(|info| info.location.clone()).collect();
    assert_eq!(locations, made);
    let times: Vec<_> = listed.iter().map(|info| info.written_at).collect();
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    let newest = Root::new(text(&root)).load_latest(&LoadOptions::new()).unwrap().unwrap();
    assert_eq!(newest.snapshot.tables[0].items.len(), 6);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_examined_is_named_and_does_not_prevent_new_checkpoints() {
    let root = Folder::new();
    let endless = root.join("2100-06-01T11:00:00+00:00");
    std::os::unix::fs::symlink(&endless, &endless).unwrap();
    for format in [Format::Relive, Format::Reverb, Format::Relive] {
        let root = Root::new(text(&root)).format(format);
        root.save(counted(2), &CheckpointProgress::default()).unwrap();
        let error = root.load_latest(&LoadOptions::new()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot examine {}: ", endless.display())), "{error}");
    }
    fs::remove_file(endless).unwrap();
    let listed = list(text(&root)).unwrap();
    let years: Vec<_> = listed.iter().map(|info| info.written_at.unwrap().as_nanos() / YEAR_NANOS).collect();
    assert_eq!(years, [130; 3], "they are later than the folder's name");
}

/// The average length of a year.
const YEAR_NANOS: i64 = 31_556_952 * 1_000_000_000;

#[test]
fn the_recommended_older_checkpoint_shares_no_damaged_segment() {
    let root = Folder::new();
    let place = Root::new(text(&root)).keep(9);
    let save =
        |snapshot: &Snapshot| place.save(snapshot.clone(), &CheckpointProgress::default()).unwrap().location;
    let segments = || -> Vec<_> {
        fs::read_dir(root.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let apart = save(&counted(4));
    let other = segments();
    let shared = counted(5);
    let second = save(&shared);
    let damaged = segments().into_iter().find(|path| !other.contains(path)).unwrap();
    save(&shared);
    assert_eq!(segments().len(), 2, "the last two checkpoints have the same chunks");
    let mut content = fs::read(&damaged).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&damaged, content).unwrap();
    let error = place.load_latest(&LoadOptions::new()).unwrap_err();
    assert_eq!(error.file(), Some(text(&damaged)));
    assert_eq!(place.older(&error), Older::Apart(apart.clone()));
    fs::remove_file(apart).unwrap();
    assert_eq!(place.older(&error), Older::Sharing);
    fs::remove_file(second).unwrap();
    assert_eq!(place.older(&error), Older::None);
}

#[test]
fn a_place_with_two_names_is_one_place() {
    let (root, link) = (Folder::new(), Folder::new());
    let first = save(&Store::open(text(&root)).unwrap(), &counted(50));
    let mut names = vec![format!("file://{}", text(&root))];
    #[cfg(unix)]
    {
        let other = link.join("other");
        std::os::unix::fs::symlink(&*root, &other).unwrap();
        names.push(text(&other).to_owned());
    }
    for name in names {
        let place = Root::new(name);
        place.lock().unwrap();
        let loaded = place.load(&first, &LoadOptions::new()).unwrap();
        let size = fs::metadata(&first).unwrap().len();
        let again = place.save(loaded.snapshot, &CheckpointProgress::default()).unwrap();
        assert!(again.written_bytes < size * 2, "the chunks are not written again: {again:?}");
    }
}

#[test]
fn a_fallback_is_ignored_only_if_it_has_no_checkpoint() {
    let (root, other) = (Folder::new(), Folder::new());
    let load = |fallback: &str| {
        let loaded = Root::new(text(&root)).fallback(fallback).load_latest(&LoadOptions::new());
        loaded.map(|loaded| loaded.map(|loaded| contents(&loaded.snapshot)))
    };
    let incomplete = other.join("2026-11-20T11:16:35+00:00");
    fs::create_dir(&incomplete).unwrap();
    fs::write(incomplete.join("tables.tfrecord"), "").unwrap();
    for nothing in [other.join("nowhere"), other.to_path_buf(), incomplete] {
        assert_eq!(load(text(&nothing)).unwrap(), None, "{}", nothing.display());
    }
    let error = load("s4://bucket/run").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Location);
    assert!(error.to_string().contains("unknown storage `s4`"), "{error}");
    let file = other.join("notes");
    fs::write(&file, "").unwrap();
    let error = load(text(&file)).unwrap_err();
    assert!(error.to_string().contains("is neither a checkpoint nor a folder of checkpoints"), "{error}");
    let damaged = save(&Store::open(text(&other)).unwrap(), &small());
    assert_eq!(load(&damaged).unwrap(), Some(contents(&small())));
    fs::write(&damaged, "damaged").unwrap();
    assert_eq!(load(&damaged).unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn a_checkpoint_of_a_later_version_is_not_reported_as_damaged() {
    let root = Folder::new();
    let path = save(&Store::open(text(&root)).unwrap(), &small());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    for options in [LoadOptions::new(), LoadOptions::new().salvage(true)] {
        let error = relive_checkpoint::load(&path, &options).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Newer);
        let expected = format!(
            "{path}: its version is 2, but this Relive reads version 1: a later version wrote it; load it with that \
             version, or a later one"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_conversion_reports_what_the_format_of_dm_reverb_lacks() {
    let mut source = small();
    source.tables[0].counters.samples = -300;
    source.tables[1].structure = Some(Arc::new(ItemStructure::of_writer(Nest::List(vec![Nest::Leaf(())]))));
    let convert = |format| {
        let folder = Folder::new();
        let target = Target::new(text(&folder), format).unwrap();
        let saved = target.write(&source, &CheckpointProgress::default()).unwrap();
        target.check(&source, &saved, Arc::default()).unwrap().changed
    };
    assert_eq!(convert(Format::Relive), [""; 0]);
    let expected = [
        "table a: the limiter's number of samples, -300, is saved as 0, because dm-reverb's format cannot store a \
         negative number of samples",
        "table b: the structure of the items, such as the names of columns, is omitted, because dm-reverb's format \
         does not have it",
    ];
    assert_eq!(convert(Format::Reverb), expected);
}

#[test]
fn a_server_whose_folder_was_moved_does_not_write_beside_another_one() {
    let folder = Folder::new();
    let root = folder.join("checkpoints");
    let root = text(&root);
    let written = |store: &Store, items| store.save(counted(items), &CheckpointProgress::default());
    let first = Store::open(root).unwrap();
    save(&first, &counted(3));
    fs::rename(root, folder.join("archived")).unwrap();

    // The folder is created again, and locked.
    save(&first, &counted(4));
    assert_eq!(Store::open(root).map(drop).unwrap_err().kind(), ErrorKind::InUse);
    assert_eq!(first.load_latest(&LoadOptions::new()).unwrap().unwrap().losses, []);

    fs::rename(root, folder.join("archived again")).unwrap();
    let second = Store::open(root).unwrap();
    assert_eq!(written(&first, 5).unwrap_err().kind(), ErrorKind::InUse);
    save(&second, &counted(6));
    drop(second);
    save(&first, &counted(7));
    assert_eq!(Store::open(root).map(drop).unwrap_err().kind(), ErrorKind::InUse);
}
