//! Tests which checkpoint is the newest, which checkpoints are removed, and what remains after a disk failure.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use relive_table::{CheckpointProgress, Snapshot, TableConfig, TableCounters, TableSnapshot};

use super::Store;
use super::name::Time;
use crate::storage::disk::{Disk, DurableFile, RealDisk};
use crate::{Error, Format, LoadOptions, Root};

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("relive-checkpoint-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a snapshot, which the number of samples distinguishes from others.
fn snapshot(samples: i64) -> Snapshot {
    let counters = TableCounters { samples, ..TableCounters::default() };
    let table = TableSnapshot {
        config: Arc::new(TableConfig::new("t")),
        counters,
        items: Vec::new(),
        structure: None,
    };
    Snapshot { tables: vec![table], ..Snapshot::default() }
}

fn root_at(folder: impl AsRef<Path>) -> Root {
    Root::new(folder.as_ref().to_str().unwrap()).format(Format::Reverb).keep(1)
}

fn save(root: &Root, samples: i64) -> PathBuf {
    root.save(snapshot(samples), &CheckpointProgress::default()).unwrap().location.into()
}

fn save_on(disk: impl Disk + 'static, root: &Path, samples: i64) -> Result<(), Error> {
    let store = Store::on(Box::new(disk), root.to_owned());
    store.save(None, &snapshot(samples), &CheckpointProgress::default()).map(drop)
}

fn samples(root: &Root) -> Option<i64> {
    let loaded = root.load_latest(&LoadOptions::new()).unwrap();
    loaded.map(|loaded| loaded.snapshot.tables[0].counters.samples)
}

#[test]
fn the_newest_checkpoint_is_loaded_and_others_are_removed() {
    let folder = Folder::new();
    let root = root_at(&folder.0);
    assert_eq!(samples(&root), None);
    for number in 1..4 {
        let path = save(&root, number);
        let loaded = root.load_latest(&LoadOptions::new()).unwrap().unwrap();
        assert_eq!((samples(&root), Path::new(&loaded.location)), (Some(number), path.as_path()));
        assert_eq!(folder.names().len(), 1);
    }
    let root = root.keep(3);
    root.release();
    for number in 4..9 {
        save(&root, number);
    }
    assert_eq!((samples(&root), folder.names().len()), (Some(8), 3));
}

#[test]
fn a_missing_folder_is_created() {
    let folder = Folder::new();
    let root = root_at(folder.0.join("a/b"));
    assert_eq!(samples(&root), None);
    save(&root, 1);
    assert_eq!(samples(&root), Some(1));
}

#[test]
fn foreign_files_and_folders_are_never_touched() {
    let folder = Folder::new();
    let foreign =
        ["zzz", "0", "2026-11-20", ".hidden.tmp", ".2026-11-20T11:16:35+00:00", "2026-11-20T11:16:35+00:00x"];
    for name in foreign {
        fs::create_dir(folder.0.join(name)).unwrap();
        fs::write(folder.0.join(name).join("DONE"), "").unwrap();
    }
    fs::write(folder.0.join("2020-01-01T00:00:00+00:00"), "a file").unwrap();
    let root = root_at(&folder.0);
    assert_eq!(samples(&root), None, "none of them is a checkpoint");
    for number in 1..3 {
        save(&root, number);
        assert_eq!((samples(&root), folder.names().len()), (Some(number), foreign.len() + 2));
    }
    let noted = save(&root, 3);
    fs::write(noted.join("notes.txt"), "the good one").unwrap();
    save(&root, 4);
    assert_eq!(fs::read_dir(&noted).unwrap().count(), 5, "a checkpoint with a file of others stays whole");
    assert_eq!(samples(&root), Some(4));
}

#[test]
fn a_renamed_checkpoint_is_loaded_if_there_is_no_other_and_never_removed() {
    let folder = Folder::new();
    let root = root_at(&folder.0);
    let golden = folder.0.join("golden");
    fs::rename(save(&root, 1), &golden).unwrap();
    assert_eq!(samples(&root), Some(1));
    fs::rename(save(&root, 2), folder.0.join("golden-2")).unwrap();
    assert_eq!(samples(&root), Some(2), "the one that was written last");
    for number in 3..5 {
        save(&root, number);
        assert_eq!((samples(&root), folder.names().len()), (Some(number), 3));
    }
    root.release();
    assert_eq!(crate::prune(&folder.0.to_string_lossy(), 1).unwrap().checkpoints, [""; 0]);
    assert!(golden.exists());
}

#[test]
fn a_copy_of_an_old_checkpoint_is_not_the_newest() {
    let folder = Folder::new();
    let theirs = root_at(&folder.0);
    let old = save(&theirs, 1);
    theirs.release();
    let ours = Root::new(folder.0.to_str().unwrap());
    save(&ours, 2);
    let copy = folder.0.join("before");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&old).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    assert_eq!(samples(&ours), Some(2));
    fs::remove_dir_all(&old).unwrap();
    assert_eq!(samples(&ours), Some(2));
}

#[test]
fn checkpoints_are_ordered_by_time_not_by_text_or_clock() {
    let folder = Folder::new();
    let root = root_at(&folder.0).keep(9);
    let named = |number, name: &str| fs::rename(save(&root, number), folder.0.join(name)).unwrap();
    // 23:30 in Auckland is earlier than 11:00 in London.
    named(2, "2100-06-01T11:00:00+00:00");
    fs::rename(folder.0.join("2100-06-01T11:00:00+00:00"), folder.0.join("aside")).unwrap();
    named(1, "2100-06-01T22:30:00+12:00");
    fs::rename(folder.0.join("aside"), folder.0.join("2100-06-01T11:00:00+00:00")).unwrap();
    assert_eq!(samples(&root), Some(2));
    // The machine's clock is far behind these names, but the next checkpoint is still the newest.
    let path = save(&root, 3);
    assert_eq!(Time::of_folder(&path), Time::from_name("2100-06-01T11:00:00.000000001+00:00").unwrap());
    assert_eq!(samples(&root), Some(3));
}

#[test]
fn folders_without_their_last_file_are_skipped() {
    let folder = Folder::new();
    let root = root_at(&folder.0).keep(2);
    save(&root, 1);
    let second = save(&root, 2);
    fs::remove_file(second.join("DONE")).unwrap();
    assert_eq!(samples(&root), Some(1));
    save(&root, 3);
    assert!(second.exists(), "who writes there is not known");
}

#[test]
fn the_fallback_is_loaded_while_there_is_no_checkpoint() {
    let (folder, other) = (Folder::new(), Folder::new());
    let fallback = save(&root_at(&other.0), 5);
    let root = root_at(&folder.0).fallback(fallback.to_str().unwrap());
    assert_eq!(samples(&root), Some(5));
    save(&root, 6);
    assert_eq!(samples(&root), Some(6));
    assert!(fallback.exists());
}

#[test]
fn leftovers_of_dead_writers_are_removed() {
    let folder = Folder::new();
    let leftover = folder.0.join(".2026-11-20T11:16:35.000000000+00:00.tmp");
    fs::create_dir(&leftover).unwrap();
    fs::write(leftover.join("tables.tfrecord"), "half").unwrap();
    let in_use = folder.0.join(".2026-11-20T11:16:36.000000000+00:00.tmp");
    fs::create_dir(&in_use).unwrap();
    let writer = RealDisk.create_file(&in_use.join("tables.tfrecord")).unwrap();
    let root = root_at(&folder.0);
    save(&root, 1);
    assert_eq!((leftover.exists(), in_use.exists()), (false, true));
    drop(writer);
    save(&root, 2);
    assert!(!in_use.exists());
}

/// A disk that fails at some operation. From then on, all operations fail, and data that was not synced is lost.
#[derive(Clone)]
struct BreakingDisk(Arc<Mutex<DiskState>>);

struct DiskState {
    /// The number of operations left before the failure.
    left: usize,
    /// Files that are not durable yet.
    volatile: Vec<PathBuf>,
}

struct VolatileFile {
    disk: BreakingDisk,
    path: PathBuf,
    file: Box<dyn DurableFile>,
}

impl BreakingDisk {
    fn after(operations: usize) -> Self {
        Self(Arc::new(Mutex::new(DiskState { left: operations, volatile: Vec::new() })))
    }

    /// Counts an operation.
    fn step(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.left > 0 {
            state.left -= 1;
            return Ok(());
        }
        for path in state.volatile.drain(..) {
            if path.exists() {
                fs::write(path, "").unwrap();
            }
        }
        Err(io::Error::other("the disk broke"))
    }
}

impl Disk for BreakingDisk {
    fn create_folders(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.create_folders(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
        self.step()?;
        let file = RealDisk.create_file(path)?;
        self.0.lock().unwrap().volatile.push(path.to_owned());
        Ok(Box::new(VolatileFile { disk: self.clone(), path: path.to_owned(), file }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.rename(from, to)?;
        for path in &mut self.0.lock().unwrap().volatile {
            if let Ok(name) = path.strip_prefix(from) {
                *path = to.join(name);
            }
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove_folder(path)
    }
}

impl Write for VolatileFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.step()?;
        // Small writes result in more operations at which the disk can fail.
        self.file.write(bytes.get(..bytes.len().min(16)).unwrap_or_default())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DurableFile for VolatileFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync()?;
        self.disk.0.lock().unwrap().volatile.retain(|path| *path != self.path);
        Ok(())
    }
}

#[test]
fn a_complete_checkpoint_survives_any_disk_failure() {
    let mut failures = 0;
    for operations in 0.. {
        let folder = Folder::new();
        let root = root_at(&folder.0);
        save(&root, 1);
        let saved = save_on(BreakingDisk::after(operations), &folder.0, 2);
        let found = samples(&root);
        match &saved {
            Ok(_) => assert_eq!(found, Some(2), "broken after {operations} operations"),
            Err(error) => {
                failures += 1;
                assert!(matches!(found, Some(1 | 2)), "broken after {operations} operations: {error}");
                assert!(error.to_string().contains("the disk broke"), "{error}");
            }
        }
        // The next server removes the leftovers.
        save(&root, 3);
        assert_eq!((samples(&root), folder.names().len()), (Some(3), 1));
        if saved.is_ok() && operations > 2 * failures {
            break;
        }
    }
    assert!(failures > 15, "{failures} places to break at");
}

#[test]
fn a_failure_leaves_nothing_behind() {
    // The disk recovers immediately, like a disk that was full for a moment.
    struct Flaky(Mutex<usize>);
    impl Flaky {
        fn step(&self) -> io::Result<()> {
            let mut left = self.0.lock().unwrap();
            let (now, broken) = left.checked_sub(1).map_or((usize::MAX, true), |left| (left, false));
            *left = now;
            if broken { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
        }
    }
    impl Disk for Flaky {
        fn create_folders(&self, path: &Path) -> io::Result<()> {
            self.step().and_then(|()| RealDisk.create_folders(path))
        }
        fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
            self.step().and_then(|()| RealDisk.create_file(path))
        }
        fn sync_folder(&self, path: &Path) -> io::Result<()> {
            self.step().and_then(|()| RealDisk.sync_folder(path))
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.step().and_then(|()| RealDisk.rename(from, to))
        }
        fn remove_file(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove_file(path)
        }
        fn remove_folder(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove_folder(path)
        }
    }
    for operations in 0..8 {
        let folder = Folder::new();
        let root = root_at(&folder.0);
        save(&root, 1);
        let before = folder.names();
        let error = save_on(Flaky(Mutex::new(operations)), &folder.0, 2).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Io);
        assert_eq!(folder.names(), before, "after {operations} operations");
        assert_eq!(samples(&root), Some(1), "after {operations} operations");
    }
}
