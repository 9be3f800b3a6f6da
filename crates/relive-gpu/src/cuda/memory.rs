//! Device memory, and host memory that the device can read.

use std::any::Any;
use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit};

use super::device::Device;
use super::driver::{Copy, DevicePtr};
use crate::{Error, Result};

/// Device memory, freed on drop.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    memory: DevicePtr,
    bytes: u64,
}

impl DeviceBuffer {
    /// Allocates memory with unspecified contents.
    ///
    /// # Errors
    /// The device does not have enough memory.
    pub fn new(device: &Device, bytes: u64) -> Result<Self> {
        // Empty buffers also get their own address.
        let memory = device.driver().allocate(bytes.max(1))?;
        Ok(Self { device: device.clone(), memory, bytes })
    }

    /// Allocates memory filled with zeros.
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    pub fn zeroed(device: &Device, bytes: u64) -> Result<Self> {
        let buffer = Self::new(device, bytes)?;
        if bytes > 0 {
            // SAFETY: the memory is newly allocated and ours; it outlives the work, for which this waits.
            unsafe { device.driver().fill(buffer.memory, 0, bytes, device.stream())? };
            device.synchronize(device.stream())?;
        }
        Ok(buffer)
    }

    /// Writes values, starting at a byte offset, after the work in the device's own stream, and waits for the write.
    ///
    /// # Errors
    /// The values do not fit, or the device fails.
    pub fn write<T: NoUninit>(&self, begin: u64, values: &[T]) -> Result<()> {
        self.copy(begin, size_of_val(values) as u64, |place, bytes| Copy {
            to: place,
            from: values.as_ptr() as u64,
            bytes,
        })
    }

    /// Reads values, starting at a byte offset, after the work in the device's own stream.
    ///
    /// # Errors
    /// The buffer has fewer values, or the device fails.
    pub fn read<T: AnyBitPattern + NoUninit>(&self, begin: u64, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); count];
        let to = values.as_mut_ptr() as u64;
        self.copy(begin, size_of_val(&*values) as u64, |from, bytes| Copy { to, from, bytes })?;
        Ok(values)
    }

    /// Copies between this memory and the host's; `copy` creates the request. Waits before the copy, because a copy of
    /// unregistered memory blocks its caller until earlier work is done; and after it, because the host memory is
    /// borrowed.
    fn copy(&self, begin: u64, bytes: u64, copy: impl FnOnce(u64, u64) -> Copy) -> Result<()> {
        if begin.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Error::invalid(format!(
                "{bytes} bytes from byte {begin} on are outside of the {} bytes of device memory",
                self.bytes
            )));
        }
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.device.stream();
        self.device.synchronize(stream)?;
        let copy = copy(self.memory.0 + begin, bytes);
        // SAFETY: source and destination have `bytes` bytes each, which stay valid until the copy is done.
        unsafe { self.device.driver().copy(&[copy], stream)? };
        self.device.synchronize(stream)
    }

    /// Returns the address of the memory.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.memory
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: the memory is from `allocate`, and all work on it is complete. On failure it leaks.
        drop(unsafe { self.device.driver().free(self.memory) });
    }
}

/// The maximum number of bytes in one registration, because drivers refuse several hundred gigabytes at once.
pub const MAX_REGISTRATION_BYTES: u64 = 64 << 30;

/// Host memory that kernels can read over the bus until this is dropped. It owns the mapping, and unregisters the
/// memory before it releases the mapping.
pub struct HostRegistration {
    device: Device,
    address: u64,
    bytes: u64,
    /// Start addresses of the pieces.
    pieces: Vec<u64>,
    on_device: DevicePtr,
    _mapping: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for HostRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, bytes, pieces, on_device, .. } = self;
        write!(f, "HostRegistration({bytes} bytes at {address:#x} in {} pieces, {on_device:?})", pieces.len())
    }
}

impl HostRegistration {
    /// Registers memory in pieces of at most [`MAX_REGISTRATION_BYTES`]. The cost is per page: touched memory in huge
    /// pages takes about 0.1 s per GiB.
    ///
    /// # Safety
    /// The bytes at `address` must stay mapped while `mapping` exists.
    ///
    /// # Errors
    /// The memory is empty, or the driver refuses it, for example because the limit on locked memory is too low.
    pub unsafe fn new(
        device: &Device,
        address: u64,
        bytes: u64,
        mapping: Box<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        if bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(Error::invalid(format!("{bytes} bytes at {address:#x} cannot be registered")));
        }
        let on_device = DevicePtr(0);
        let device = device.clone();
        // Dropping this value unregisters the registered pieces, even if a later one fails.
        let mut made = Self { device, address, bytes, pieces: Vec::new(), on_device, _mapping: mapping };
        let mut begin = 0;
        while begin < bytes {
            let size = (bytes - begin).min(MAX_REGISTRATION_BYTES);
            // SAFETY: the caller's contract; `made` unregisters before the mapping ends.
            let piece = match unsafe { made.device.driver().register(address + begin, size) } {
                Ok(piece) => piece,
                Err(error) => {
                    made.device.driver().recover()?;
                    return Err(error);
                }
            };
            made.pieces.push(address + begin);
            if begin == 0 {
                made.on_device = piece;
            } else if piece != made.on_device.at(begin) {
                return Err(Error::invalid(format!(
                    "the piece at byte {begin} of the registered memory is at {:#x} of the device, not right after the one \
                     before it: register less than {MAX_REGISTRATION_BYTES} bytes at a time",
                    piece.0
                )));
            }
            begin += size;
        }
        Ok(made)
    }

    /// Returns the memory's address for kernels.
    #[must_use]
    pub fn on_device(&self) -> DevicePtr {
        self.on_device
    }

    /// Returns the memory's address on the host.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HostRegistration {
    fn drop(&mut self) {
        for piece in self.pieces.iter().rev() {
            // SAFETY: the piece is registered, and all work that uses it is complete.
            if unsafe { self.device.driver().unregister(*piece) }.is_err() {
                drop(self.device.driver().recover());
            }
        }
    }
}
