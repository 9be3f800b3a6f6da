//! Memory-mapped files: the only unsafe code in this crate.
#![expect(unsafe_code, reason = "any program that can write to the file can change the mapped memory")]

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::storage::Source;

/// A mapping of a complete file that is no longer written to.
///
/// The file must not change while it is mapped, which its owner ensures by keeping the folder locked. If another
/// process has truncated the file, or the disk cannot be read, an access to the mapping kills this process with a bus
/// error. The mapping is therefore accessed only where there is no alternative.
pub(super) struct Mapping(Mmap);

impl Mapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: this process created the file, in a folder that it keeps locked, and no longer writes to it.
        let map = unsafe { Mmap::map(file)? };
        // Chunks are accessed in random order. Their neighbors are not needed, and must not be loaded in huge pages,
        // which would count as this process's memory. Not every system follows this advice.
        let _ = map.advise(Advice::Random);
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::NoHugePage);
        Ok(Self(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the mapping's memory to the system. Its contents do not change.
    pub(super) fn release_pages(&self) {
        // SAFETY: the mapping is shared and backed by a file, so its pages are reloaded from the file with the same
        // bytes.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

impl Source for Mapping {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes =
            self.0.get(start..start.saturating_add(into.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}
