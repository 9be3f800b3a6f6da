//! A folder on this machine.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::disk::{Disk, DurableFile, Locked, RealDisk};
use super::seam::{Entry, Source, Storage, Upload, WriterLock};
use crate::limits::{LOCK_LOOK_EVERY, LOCK_PATIENCE};
use crate::{Error, ErrorKind};

/// The file that a writer keeps locked.
const LOCK: &str = "relive.lock";

/// A folder. Files are first written under another name, `.<name>.tmp`, next to their final place.
pub(crate) struct LocalStorage {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl LocalStorage {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk), root)
    }

    pub(crate) fn on(disk: Arc<dyn Disk>, root: impl Into<PathBuf>) -> Self {
        let root: PathBuf = root.into();
        let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
        Self { disk, root }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// Creates a folder and its parents, and makes them durable.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let is_missing =
            |folder: &&Path| !folder.as_os_str().is_empty() && self.disk.read_folder(folder).is_err();
        let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
        self.disk.create_folders(folder)?;
        missing.into_iter().try_for_each(|folder| self.disk.sync_folder(parent(folder)))
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DurableFile>> {
        match self.disk.create_file(path) {
            // The file's writer no longer exists: only one writer has the lock, and it is not writing this file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove_file(path)?;
                self.disk.create_file(path)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(parent(path))?;
                self.disk.create_file(path)
            }
            created => created,
        }
    }
}

impl Storage for LocalStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        let path = self.path(name);
        let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let draft = path.with_file_name(format!(".{file_name}.tmp"));
        let file = Some(self.create_file(&draft)?);
        Ok(Box::new(LocalUpload { disk: Arc::clone(&self.disk), file, draft, path }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.disk.open(&self.path(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let files = match self.disk.read_folder(&self.path(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let whole = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
        Ok(files.into_iter().map(|(name, size_bytes)| Entry { name: whole(name), size_bytes }).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        self.disk.remove_file(&path)?;
        self.disk.sync_folder(parent(&path))
    }

    fn lock(&self) -> Result<Box<dyn WriterLock>, Error> {
        let made = self.disk.read_folder(&self.root).map(drop).or_else(|_| self.make_folder(&self.root));
        made.map_err(|source| Error::io("create the folder", &self.root, source))?;
        let path = self.path(LOCK);
        let note = format!("process {}\n", std::process::id());
        let since = Instant::now();
        loop {
            match self.disk.lock(&path, &note).map_err(|source| Error::io("write", &path, source))? {
                Locked::Ours(lock) => return Ok(lock),
                // A killed process keeps its locks until the system has cleaned up.
                Locked::Theirs(_) if since.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_LOOK_EVERY),
                Locked::Theirs(note) => return Err(in_use(&self.root, &note)),
            }
        }
    }

    fn take_over(&self, file: &Path, name: &str) -> io::Result<bool> {
        let path = self.path(name);
        match self.disk.sync_file(file) {
            // The file was removed; a process that has it mapped can still copy it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            synced => synced?,
        }
        let linked = match self.disk.link(file, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(parent(&path))?;
                self.disk.link(file, &path)
            }
            linked => linked,
        };
        match linked {
            Err(error) if is_no_place_for_links(&error) => Ok(false),
            // An existing name may be from an attempt whose sync failed, and need not be durable.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.disk.sync_folder(parent(&path)).map(|()| true),
        }
    }

    fn describe(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Returns whether the error means that the file system does not support hard links at all, or not from the file's
/// location.
fn is_no_place_for_links(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn in_use(root: &Path, note: &str) -> Error {
    let owner = note.lines().next().filter(|line| !line.is_empty()).unwrap_or("another process");
    let text = format!(
        "{}: {owner} writes its checkpoints here and has locked {LOCK}; stop it, or use another folder",
        root.display()
    );
    Error::plain(ErrorKind::InUse, text)
}

/// A file under its temporary name.
struct LocalUpload {
    disk: Arc<dyn Disk>,
    /// `None` once the file has been finished, whether or not this succeeded.
    file: Option<Box<dyn DurableFile>>,
    draft: PathBuf,
    path: PathBuf,
}

impl Upload for LocalUpload {
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("the file is finished"))?;
        write_all(file.as_mut(), parts)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.sync()?;
        self.disk.rename(&self.draft, &self.path)?;
        self.file = None;
        self.disk.sync_folder(parent(&self.path))
    }
}

impl Drop for LocalUpload {
    fn drop(&mut self) {
        if self.file.take().is_none() {
            return;
        }
        if let Err(error) = self.disk.remove_file(&self.draft) {
            tracing::warn!(file = %self.draft.display(), %error, "cannot remove an unfinished file; the next writer will remove it");
        }
    }
}

/// Writes all parts, even if each call accepts only a few bytes.
pub(crate) fn write_all(file: &mut dyn DurableFile, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Skips empty parts, because they must not look like a failure to write.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_disk::{Crash, DiskFailure, SimulatedDisk};

    /// Accepts three bytes at a time.
    #[derive(Default)]
    struct Slow(Arc<std::sync::Mutex<Vec<u8>>>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.get(..bytes.len().min(3)).unwrap_or_default();
            self.0.lock().unwrap().extend_from_slice(taken);
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl DurableFile for Slow {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn parts_are_written_completely_despite_short_writes() {
        let mut file = Slow::default();
        let parts: [&[u8]; 6] = [b"", b"one", b"", b"and another", b"x", b""];
        write_all(&mut file, &mut parts.map(IoSlice::new)).unwrap();
        assert_eq!(*file.0.lock().unwrap(), b"oneand anotherx");
    }

    #[test]
    fn a_file_appears_only_when_complete() {
        let root = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(root.path());
        let names = |folder: &str| -> Vec<String> {
            storage.list(folder).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        let mut upload = storage.create("segments/a").unwrap();
        upload.write(&mut [IoSlice::new(b"content")]).unwrap();
        assert_eq!(names("segments"), ["segments/.a.tmp"]);
        upload.finish().unwrap();
        assert_eq!(names("segments"), ["segments/a"]);
        drop(storage.create("segments/b").unwrap());
        assert_eq!(names("segments"), ["segments/a"], "an unfinished upload leaves nothing");
        let mut bytes = [0; 4];
        let file = storage.open("segments/a").unwrap();
        file.read_exact_at(&mut bytes, 3).unwrap();
        assert_eq!((file.size_bytes(), &bytes), (7, b"tent"));
        assert_eq!(file.read_exact_at(&mut bytes, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        storage.remove("segments/a").unwrap();
        assert_eq!(names("segments"), Vec::<String>::new());
        assert_eq!(names("nowhere"), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_was_taken_over_is_durable_even_after_a_failed_attempt() {
        let disk = SimulatedDisk::new();
        let storage = LocalStorage::on(Arc::new(disk.clone()), "/store");
        let file = Path::new("/spilled/a");
        disk.create_folders(Path::new("/spilled")).unwrap();
        disk.create_folders(Path::new("/store/segments")).unwrap();
        ["/", "/store"].iter().for_each(|folder| disk.sync_folder(Path::new(folder)).unwrap());
        io::Write::write_all(&mut disk.create_file(file).unwrap(), b"1").unwrap();
        // The operations are: sync the file, link, sync the folder.
        disk.set_failure(DiskFailure::FailsOnce(2));
        assert!(storage.take_over(file, "segments/a").is_err());
        assert!(storage.take_over(file, "segments/a").unwrap());
        let files = disk.after(Crash::Loses).files();
        assert_eq!(files.get(Path::new("/store/segments/a")), Some(&b"1".to_vec()));
    }

    #[test]
    fn a_second_writer_is_refused_with_the_owner_of_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let (one, other) = (LocalStorage::new(&folder), LocalStorage::new(&folder));
        let lock = one.lock().unwrap();
        let error = other.lock().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InUse);
        let expected = format!(
            "{}: process {} writes its checkpoints here and has locked relive.lock; stop it, or use another folder",
            folder.display(),
            std::process::id()
        );
        assert_eq!(error.to_string(), expected);
        drop(lock);
        assert!(other.lock().is_ok());
    }

    #[test]
    fn a_lock_does_not_hold_for_a_folder_in_place_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        let storage = LocalStorage::new(&folder);
        let lock = storage.lock().unwrap();
        assert!(lock.is_held());
        std::fs::rename(&folder, root.path().join("moved")).unwrap();
        assert!(!lock.is_held());
        let other = LocalStorage::new(&folder).lock().unwrap();
        assert!(other.is_held() && !lock.is_held());
    }
}
