//! Memory of the device, and memory of the host that it can read.

use std::any::Any;
use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit};

use super::device::Device;
use super::driver::{Copy, DevicePtr};
use crate::{Error, Result};

/// Memory of a device, given back when it is dropped.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    memory: DevicePtr,
    bytes: u64,
}

impl DeviceBuffer {
    /// Memory with unspecified content.
    ///
    /// # Errors
    /// There is not so much.
    pub fn new(device: &Device, bytes: u64) -> Result<Self> {
        // An address of its own for empty ones, too.
        let memory = device.driver().allocate(bytes.max(1))?;
        Ok(Self { device: device.clone(), memory, bytes })
    }

    /// Memory filled with zeros.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn zeroed(device: &Device, bytes: u64) -> Result<Self> {
        let buffer = Self::new(device, bytes)?;
        if bytes > 0 {
            // SAFETY: the memory is ours and has just been made; it outlives the work, for which this waits.
            unsafe { device.driver().fill(buffer.memory, 0, bytes, device.stream())? };
            device.synchronize(device.stream())?;
        }
        Ok(buffer)
    }

    /// Writes values from a byte on, after the work that the device's own stream has, and waits for it.
    ///
    /// # Errors
    /// They do not fit, or the device fails.
    pub fn write<T: NoUninit>(&self, begin: u64, values: &[T]) -> Result<()> {
        self.copy(begin, size_of_val(values) as u64, |place, bytes| Copy {
            to: place,
            from: values.as_ptr() as u64,
            bytes,
        })
    }

    /// Values from a byte on, after the work that the device's own stream has.
    ///
    /// # Errors
    /// There are not so many, or the device fails.
    pub fn read<T: AnyBitPattern + NoUninit>(&self, begin: u64, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); count];
        let to = values.as_mut_ptr() as u64;
        self.copy(begin, size_of_val(&*values) as u64, |from, bytes| Copy { to, from, bytes })?;
        Ok(values)
    }

    /// A copy between this memory and the host's, of which `copy` makes the request. Waits before it, since a copy of
    /// memory that is not registered holds up its caller for as long as work before it takes; and after it, since the
    /// host's memory is borrowed.
    fn copy(&self, begin: u64, bytes: u64, copy: impl FnOnce(u64, u64) -> Copy) -> Result<()> {
        if begin.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Error::invalid(format!(
                "{bytes} bytes from byte {begin} on are not within the {} of the device's memory",
                self.bytes
            )));
        }
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.device.stream();
        self.device.synchronize(stream)?;
        let copy = copy(self.memory.0 + begin, bytes);
        // SAFETY: both ends are of memory with so many bytes, which stays until the work has been waited for.
        unsafe { self.device.driver().copy(&[copy], stream)? };
        self.device.synchronize(stream)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.memory
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: the memory is from `allocate`; all work on it is waited for before this. A failure leaves it
        // allocated.
        drop(unsafe { self.device.driver().free(self.memory) });
    }
}

/// The most bytes of one registration: drivers refuse some hundreds of gigabytes at once.
pub const MAX_REGISTRATION_BYTES: u64 = 64 << 30;

/// Memory of the host that kernels read over the bus, until this is dropped. It owns what keeps the memory mapped, and
/// unregisters before it lets go of that.
pub struct HostRegistration {
    device: Device,
    address: u64,
    bytes: u64,
    /// Begins of the pieces.
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
    /// Registers memory, in pieces of at most [`MAX_REGISTRATION_BYTES`]. The cost is per page: memory with huge
    /// pages that has been touched before takes about 0.1 s per GiB.
    ///
    /// # Safety
    /// The bytes at `address` are mapped as long as `mapping` lives.
    ///
    /// # Errors
    /// The memory is empty, or the driver refuses it, as it does when the limit on locked memory is too low.
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
        // Pieces that are registered are unregistered by its drop, also if a later one fails.
        let mut made = Self { device, address, bytes, pieces: Vec::new(), on_device, _mapping: mapping };
        let mut begin = 0;
        while begin < bytes {
            let size = (bytes - begin).min(MAX_REGISTRATION_BYTES);
            // SAFETY: as the caller says; `made` unregisters before the mapping ends.
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

    /// Where kernels find the memory.
    #[must_use]
    pub fn on_device(&self) -> DevicePtr {
        self.on_device
    }

    /// Where the host finds it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HostRegistration {
    fn drop(&mut self) {
        for piece in self.pieces.iter().rev() {
            // SAFETY: the piece is registered, and work that uses it is waited for before this.
            if unsafe { self.device.driver().unregister(*piece) }.is_err() {
                drop(self.device.driver().recover());
            }
        }
    }
}
