//! Mapped files and shared memory.
#![expect(unsafe_code, reason = "mappings are made and removed here; each block says why it is sound")]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_threads::try_parallel;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::files;
use super::layout::{HUGE_PAGE, PAGE};
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};

/// The number of bytes that a thread touches at a time.
const TOUCH_BYTES: usize = 64 << 20;

/// A mapping of a whole file, aligned to 2 MiB for huge pages.
///
/// Other processes may write to the memory, so its bytes are accessed through atomics, or as slices of rows that the
/// protocol assigns to one side at a time.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: it is system memory, not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` only exposes addresses; code that turns them into references is responsible for them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file, which must exist; `len` is a multiple of the page size.
    pub(crate) fn new(file: impl AsFd, len: u64, what: &str) -> Result<Self> {
        let failed =
            |error: Errno| Error::system(format_args!("map the {len} bytes of {what}"), error.into());
        let len = narrow(len);
        let spare = len + narrow(HUGE_PAGE);
        // SAFETY: reserves new addresses, without memory behind them.
        let reserved = unsafe {
            mmap_anonymous(null_mut(), spare, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let reserved = reserved.map_err(failed)?;
        let address = reserved.map_addr(|begin| begin.next_multiple_of(narrow(HUGE_PAGE)));
        // SAFETY: the addresses are part of the range reserved above, which is otherwise unused.
        let mapped = unsafe {
            mmap(
                address,
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                0,
            )
        };
        if let Err(error) = mapped {
            release(reserved.cast(), spare);
            return Err(failed(error));
        }
        let (start, len) = Self::trim(reserved.cast(), spare, len);
        Ok(Self { start, len })
    }

    /// Maps memory of this process alone, zeroed, aligned to 2 MiB.
    pub(crate) fn private(len: u64, what: &str) -> Result<Self> {
        let len = narrow(len).next_multiple_of(narrow(PAGE));
        let spare = len + narrow(HUGE_PAGE);
        // SAFETY: allocates new memory.
        let reserved = unsafe {
            mmap_anonymous(null_mut(), spare, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let reserved = reserved
            .map_err(|error| Error::system(format_args!("get {len} bytes for {what}"), error.into()))?;
        let (start, len) = Self::trim(reserved.cast(), spare, len);
        Ok(Self { start, len })
    }

    /// Unmaps everything around the first `len` bytes that start at a multiple of 2 MiB.
    fn trim(reserved: *mut u8, spare: usize, len: usize) -> (*mut u8, usize) {
        let before = reserved.addr().next_multiple_of(narrow(HUGE_PAGE)) - reserved.addr();
        let start = reserved.wrapping_byte_add(before);
        release(reserved, before);
        release(start.wrapping_byte_add(len), spare - before - len);
        (start, len)
    }

    /// Returns the start address.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> u64 {
        wide(self.len)
    }

    /// Requests huge pages. The system may not have any for this kind of memory, which only makes later accesses
    /// slower.
    pub(crate) fn advise_huge(&self) -> bool {
        // SAFETY: the advice changes no byte of this mapping.
        unsafe { madvise(self.start.cast(), self.len, Advice::LinuxHugepage) }.is_ok()
    }

    /// Makes the system allocate memory behind every byte, on several threads. `file` is the mapped file, if any, which
    /// must be new: on some file systems, everything after its first page is overwritten with zeros.
    pub(crate) fn touch(&self, threads: usize, file: Option<&File>, what: &str) -> Result<()> {
        // This comes first, because space that is reserved without a mapping is not in huge pages.
        let outcome = match self.in_ranges(threads, |begin, len| self.populate(begin, len)) {
            // Kernels before 5.14 do not support this advice, or the file system has no space. If there is no space, a
            // process that touches a page is killed.
            Err(error) if error == Errno::INVAL || (error == Errno::FAULT && file.is_some()) => {
                file.map_or(Ok(()), |file| files::reserve(file, what, self.len()))?;
                self.in_ranges(threads, |begin, len| self.touch_pages(begin, len))
            }
            outcome => outcome,
        };
        outcome.map_err(|error| {
            Error::unavailable(format!(
                "there is no memory for the {} bytes of {what} ({error}); lower the capacity, or free some memory",
                self.len
            ))
        })
    }

    /// Calls `work` for the starts and lengths of all ranges, on at most `threads` threads.
    fn in_ranges(
        &self,
        threads: usize,
        work: impl Fn(usize, usize) -> Result<(), Errno> + Sync,
    ) -> Result<(), Errno> {
        if threads == 0 {
            return Ok(());
        }
        let ranges = self.len.div_ceil(TOUCH_BYTES);
        try_parallel(threads, ranges, |range| {
            let begin = range * TOUCH_BYTES;
            work(begin, TOUCH_BYTES.min(self.len - begin))
        })
    }

    fn populate(&self, begin: usize, len: usize) -> Result<(), Errno> {
        let start = self.start.wrapping_add(begin);
        loop {
            // SAFETY: the range is within the mapping, and its bytes stay unchanged.
            match unsafe { madvise(start.cast(), len, Advice::LinuxPopulateWrite) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                other => return other,
            }
        }
    }

    fn touch_pages(&self, begin: usize, len: usize) -> Result<(), Errno> {
        for at in (begin..begin + len).step_by(narrow(PAGE)) {
            // SAFETY: aligned because pages are, and within the mapping; an atomic addition of 0 changes nothing for
            // others.
            let word = unsafe { AtomicU64::from_ptr(self.start.wrapping_add(at).cast()) };
            word.fetch_add(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        release(self.start, self.len);
    }
}

/// Unmaps memory that is no longer in use.
fn release(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: called for reserved addresses that were never handed out, and for a mapping that is being dropped. It
        // only fails for unaligned addresses, and these are aligned.
        let _: Result<(), Errno> = unsafe { munmap(start.cast::<c_void>(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn memory(len: u64) -> OwnedFd {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, len).unwrap();
        file
    }

    #[test]
    fn two_mappings_of_one_file_share_memory() {
        let file = memory(3 * PAGE);
        let [a, b] = [0; 2].map(|_| Mapping::new(&file, 3 * PAGE, "it").unwrap());
        assert_eq!(a.start().addr() % narrow(HUGE_PAGE), 0);
        a.touch(2, None, "it").unwrap();
        // SAFETY: both are within mappings of three pages.
        unsafe {
            a.start().add(5000).write(7);
            assert_eq!(b.start().add(5000).read(), 7);
        }
        a.touch_pages(0, narrow(3 * PAGE)).unwrap();
        a.touch(1, None, "it").unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { b.start().add(5000).read() }, 7);
    }

    /// The program of [`missing_space_is_an_error_that_states_it`], which may mount a file system in its own namespace.
    const MOUNT: &str = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec \"$@\"";
    const IN_NAMESPACE: &str = "RELIVE_TEST_IN_NAMESPACE";

    /// Returns the result of this test in a process with a small `/dev/shm`, or `None` if that cannot be created here.
    fn in_small_memory(test: &str) -> Option<std::process::Output> {
        let run = |program: &[&str]| {
            let mut command = std::process::Command::new("unshare");
            command.args(["-rm", "sh", "-c", MOUNT, "sh"]).args(program);
            command.env(IN_NAMESPACE, "1").output().ok()
        };
        run(&["true"]).filter(|output| output.status.success())?;
        let own = std::env::current_exe().ok()?;
        run(&[own.to_str()?, "--exact", test, "--nocapture"])
    }

    #[test]
    fn missing_space_is_an_error_that_states_it() {
        const TEST: &str = "memory::mapping::tests::missing_space_is_an_error_that_states_it";
        if std::env::var_os(IN_NAMESPACE).is_none() {
            let Some(output) = in_small_memory(TEST) else {
                return eprintln!("not tested: this process may not mount a small /dev/shm (`unshare -rm`)");
            };
            let has_run = String::from_utf8_lossy(&output.stdout).contains("1 passed");
            assert!(output.status.success() && has_run, "{output:?}");
            return;
        }
        let file = File::options().read(true).write(true).create_new(true).open("/dev/shm/it").unwrap();
        file.set_len(4 << 20).unwrap();
        let map = Mapping::new(&file, 4 << 20, "it").unwrap();
        let error = map.touch(2, Some(&file), "it").unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Unavailable);
        assert!(error.to_string().starts_with("there is no space for the 4194304 bytes of it; "), "{error}");
    }

    /// Defect 24: a mapping that fails returns an error that states the reason.
    #[test]
    fn a_failed_mapping_is_an_error() {
        let file = File::open("/dev/null").unwrap();
        let error = Mapping::new(file, PAGE, "/dev/null").unwrap_err().to_string();
        assert!(error.starts_with("map the 4096 bytes of /dev/null: "), "{error}");
    }
}
