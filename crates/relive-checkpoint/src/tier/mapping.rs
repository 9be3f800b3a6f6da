//! Files as memory: the one place of this crate where that is not checked by the compiler.
#![expect(unsafe_code, reason = "what a mapping shows can be changed by whoever can write the file")]

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Advice, Mmap, UncheckedAdvice};

/// A file that was written before and is only read from now on.
///
/// It must not be changed while it is mapped, which its owner sees to by keeping the folder locked: another process that
/// truncates it ends this one with a bus error, as does a disk that cannot be read.
pub(super) struct Mapping(Mmap);

impl Mapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the file is of this process's own making, in a folder that it keeps locked, and is not written to any more.
        let map = unsafe { Mmap::map(file)? };
        // Chunks are picked at random; what lies beside them is not wanted, and must not come in pages of megabytes that
        // count as this process's memory. Not every system takes the advice.
        let _ = map.advise(Advice::Random);
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::NoHugePage);
        Ok(Self(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Has the system begin to read a part.
    pub(super) fn will_need(&self, range: Range<usize>) {
        // Without the advice it is read when it is looked at.
        let _ = self.0.advise_range(Advice::WillNeed, range.start, range.len());
    }

    /// Gives the memory that the mapping takes back to the system. What it shows does not change.
    pub(super) fn let_go(&self) {
        // SAFETY: the mapping is shared and of a file, so that its pages come back from the file with the same bytes.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}
