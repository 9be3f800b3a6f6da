//! Files as memory: the one place of this crate where that is not checked by the compiler.
#![expect(unsafe_code, reason = "what a mapping shows can be changed by whoever can write the file")]

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::storage::Source;

/// A file that was written before and is only read from now on.
///
/// It must not be changed while it is mapped, which its owner sees to by keeping the folder locked: where another
/// process has truncated it, looking at the mapping ends this one with a bus error, as does a disk that cannot be
/// read. So it is looked at only where nothing else will do.
pub(super) struct Mapping(Mmap);

impl Mapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the file is of this process's own making, in a folder that it keeps locked, and is not written to
        // any more.
        let map = unsafe { Mmap::map(file)? };
        // Chunks are picked at random; what lies beside them is not wanted, and must not come in pages of megabytes
        // that count as this process's memory. Not every system takes the advice.
        let _ = map.advise(Advice::Random);
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::NoHugePage);
        Ok(Self(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives the memory that the mapping takes back to the system. What it shows does not change.
    pub(super) fn let_go(&self) {
        // SAFETY: the mapping is shared and of a file, so that its pages come back from the file with the same bytes.
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
