//! For tests: a disk in memory that fails, fills up, makes short writes, and forgets non-durable data.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::storage::Source;
use crate::storage::WriterLock;
use crate::storage::disk::{Disk, DurableFile, Locked};

/// A simulated disk; clones share it.
#[derive(Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    files: Vec<File>,
    now: Names,
    /// The state that is certain to survive a crash.
    durable: Names,
    failure: DiskFailure,
    /// The number of operations so far.
    operations: usize,
    is_locked: bool,
    is_read_only: bool,
}

#[derive(Clone, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Clone, Default)]
struct Names {
    /// Positions in the list of files.
    files: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
}

/// Failures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum DiskFailure {
    #[default]
    None,
    /// The first operation that fails. All later operations also fail, as if the process had been killed before it.
    DeadFrom(usize),
    /// Only this operation fails.
    FailsOnce(usize),
    /// The maximum number of bytes that the disk holds.
    Full(usize),
}

/// The effect of a crash on data that is not durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crash {
    /// All of it is lost.
    Loses,
    /// All of it is kept.
    Keeps,
    /// A part of it is kept, which is determined by this seed: some names, and some bytes of files. Other bytes are 0
    /// or missing.
    Mixes(u64),
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        let state = State::default();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns another disk with the same contents, without failures and locks.
    pub(crate) fn copy(&self) -> Self {
        let mut state = self.state().clone();
        (state.failure, state.operations, state.is_locked) = (DiskFailure::None, 0, false);
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn set_failure(&self, failure: DiskFailure) {
        let mut state = self.state();
        (state.failure, state.operations) = (failure, 0);
    }

    /// Returns the number of operations since the last failure was set.
    pub(crate) fn operations(&self) -> usize {
        self.state().operations
    }

    pub(crate) fn make_read_only(&self) {
        self.state().is_read_only = true;
    }

    /// Returns the disk after a power failure.
    pub(crate) fn after(&self, crash: Crash) -> Self {
        let after = self.copy();
        let mut state = after.state();
        match crash {
            Crash::Keeps => {}
            Crash::Loses => state.drop_unsynced(|| Durability::Lost),
            Crash::Mixes(seed) => {
                let mut random = seed;
                state.drop_unsynced(|| Durability::draw(&mut random));
            }
        }
        drop(state);
        after
    }

    /// Returns all files with their contents.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let content = |file: &usize| state.files[*file].now.clone();
        state.now.files.iter().map(|(path, file)| (path.clone(), content(file))).collect()
    }

    /// Modifies the contents of a file directly, without performing an operation of the disk.
    pub(crate) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = state.now.files[path];
        change(&mut state.files[file].now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

enum Durability {
    Lost,
    Kept,
    /// The given number of thousandths of the new bytes is kept; the flag specifies whether the rest is replaced by
    /// zeros.
    Partly(u64, bool),
}

impl Durability {
    fn draw(random: &mut u64) -> Self {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = *random >> 33;
        match drawn % 4 {
            0 => Self::Lost,
            1 => Self::Kept,
            _ => Self::Partly((drawn >> 8) % 1000, drawn & 128 == 0),
        }
    }
}

impl State {
    fn drop_unsynced(&mut self, mut durability: impl FnMut() -> Durability) {
        for file in &mut self.files {
            file.now = match durability() {
                Durability::Lost => file.durable.clone(),
                Durability::Kept => continue,
                Durability::Partly(thousandths, has_zeros) => {
                    let new = file.now.len().saturating_sub(file.durable.len());
                    let kept = file.durable.len() + new * usize::try_from(thousandths).unwrap() / 1000;
                    let mut content = file.now[..kept.min(file.now.len())].to_vec();
                    if has_zeros {
                        content.resize(file.now.len(), 0);
                    }
                    content
                }
            };
        }
        let durable = self.durable.clone();
        let paths: BTreeSet<PathBuf> = self.now.files.keys().chain(durable.files.keys()).cloned().collect();
        for path in paths {
            if matches!(durability(), Durability::Kept) {
                continue;
            }
            match durable.files.get(&path) {
                Some(file) => drop(self.now.files.insert(path, *file)),
                None => drop(self.now.files.remove(&path)),
            }
        }
        let folders = durable.folders;
        self.now.folders.retain(|folder| folders.contains(folder));
        let Names { files, folders } = &mut self.now;
        files.retain(|path, _| folders.contains(path.parent().unwrap()));
        self.durable = self.now.clone();
        self.files.iter_mut().for_each(|file| file.durable.clone_from(&file.now));
    }

    /// Counts an operation.
    fn step(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        match self.failure {
            DiskFailure::DeadFrom(dead) if number >= dead => Err(io::Error::other("the process was killed")),
            DiskFailure::FailsOnce(failing) if number == failing => Err(io::Error::other("a bad moment")),
            _ if self.is_read_only => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
            _ => Ok(()),
        }
    }

    fn room(&self) -> usize {
        let DiskFailure::Full(most) = self.failure else { return usize::MAX };
        most.saturating_sub(self.now.files.values().map(|file| self.files[*file].now.len()).sum())
    }
}

impl Disk for SimulatedDisk {
    fn create_folders(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.now.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
        let mut state = self.state();
        state.step()?;
        if !state.now.folders.contains(path.parent().unwrap()) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        if state.now.files.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.files.push(File::default());
        let file = state.files.len() - 1;
        state.now.files.insert(path.to_owned(), file);
        Ok(Box::new(OpenFile { disk: self.clone(), file }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let State { now, durable, .. } = &mut *state;
        let is_in = |other: &Path| other.parent() == Some(path);
        durable.files.retain(|file, _| !is_in(file));
        durable.files.extend(
            now.files.iter().filter(|(file, _)| is_in(file)).map(|(path, file)| (path.clone(), *file)),
        );
        durable
            .folders
            .extend(now.folders.iter().filter(|folder| is_in(folder) || folder.parent().is_none()).cloned());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let file = state.now.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.now.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let file = *state.now.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let file = &mut state.files[file];
        file.durable.clone_from(&file.now);
        Ok(())
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.now.files.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        if !state.now.folders.contains(name.parent().unwrap()) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let file = *state.now.files.get(file).ok_or(io::ErrorKind::NotFound)?;
        state.now.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.now.files.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_folder(&self, _path: &Path) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let state = self.state();
        let file = *state.now.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Content(state.files[file].now.clone())))
    }

    fn read_folder(&self, path: &Path) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        if !state.now.folders.contains(path) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let files = state.now.files.iter().filter(|(file, _)| file.parent() == Some(path));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(files.map(|(path, file)| (name(path), state.files[*file].now.len() as u64)).collect())
    }

    fn lock(&self, _path: &Path, _note: &str) -> io::Result<Locked> {
        let mut state = self.state();
        state.step()?;
        if std::mem::replace(&mut state.is_locked, true) {
            return Ok(Locked::Theirs("process 7\n".to_owned()));
        }
        Ok(Locked::Ours(Box::new(Lock(self.clone()))))
    }
}

struct Lock(SimulatedDisk);

impl WriterLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

struct OpenFile {
    disk: SimulatedDisk,
    file: usize,
}

/// The limit on the number of bytes per write.
const SHORT_WRITE_BYTES: usize = 1000;

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.step()?;
        let room = state.room();
        if room == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let taken = bytes.len().min(SHORT_WRITE_BYTES).min(room);
        state.files[self.file].now.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DurableFile for OpenFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        let file = &mut state.files[self.file];
        file.durable.clone_from(&file.now);
        Ok(())
    }
}

struct Content(Vec<u8>);

impl Source for Content {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let bytes = start.checked_add(into.len()).and_then(|end| self.0.get(start..end));
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
