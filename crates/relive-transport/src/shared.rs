//! Memory that two processes share. It is anonymous, so it disappears with the last process that has it. It has a fixed
//! size, so neither side can remove memory that the other side reads.
#![expect(
    unsafe_code,
    reason = "a mapping is memory that another process may write to; each block says why it is sound"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};

use crate::limits::MAX_SHARED_BYTES;

/// Seals that prevent resizing. Without them, the other side could remove this memory and crash a reader.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A piece of shared memory, mapped.
///
/// By protocol, only one of the two processes accesses the memory at a time. The other process could break the protocol
/// and write at any time, which Rust's rules for references do not allow. This risk is accepted: both processes run on
/// one machine and for one user (or root), who trusts both of them. Rust code treats the memory as plain bytes, for
/// which every bit pattern is valid; it copies numbers out of the memory before it checks them, so that later changes
/// cannot invalidate a check. NumPy reads batches in place.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
}

impl SharedMemory {
    /// Creates `len` bytes of zeroed memory, and returns the descriptor to be sent to the other process.
    ///
    /// # Errors
    /// If the system does not support such memory, or does not have enough of it.
    pub fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("relive", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&file, u64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?)?;
        fcntl_add_seals(&file, FIXED_SIZE)?;
        Ok((Self::map(&file, len)?, file))
    }

    /// Maps the memory behind a descriptor from the other process.
    ///
    /// # Errors
    /// If the descriptor does not refer to memory of a fixed size, or the memory does not have `len` bytes.
    pub fn open(file: OwnedFd, len: usize) -> io::Result<Self> {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()));
        if !fcntl_get_seals(&file)?.contains(FIXED_SIZE) {
            return refuse("the other side could truncate the shared memory");
        }
        let file = File::from(file);
        if file.metadata()?.len() != len as u64 {
            return refuse("the size of the shared memory differs from the announced size");
        }
        Self::map(&file, len)
    }

    /// The mapping outlives the descriptor.
    fn map(file: &impl AsRawFd, len: usize) -> io::Result<Self> {
        if len == 0 || len > MAX_SHARED_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("cannot share {len} bytes of memory; the limit is {MAX_SHARED_BYTES}"),
            ));
        }
        let map = MmapOptions::new().len(len).map_raw(file.as_raw_fd())?;
        Ok(Self { map })
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether the memory has no bytes, which is never the case.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Returns the address of the memory, for code that reads it like memory to which other threads may write.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Returns the bytes for writing.
    ///
    /// Do not rely on bytes read back: the other side may have changed them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes and outlives the borrow; its size is sealed. `&mut self` prevents a
        // second borrow in this process. The other process could write to it in the meantime. For bytes in memory of
        // the system, that yields no undefined value, and by protocol the other process does not write until it is
        // allowed to.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.map.len()) }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as above; by protocol, the other side does not write to memory after it has passed it on.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }
}
