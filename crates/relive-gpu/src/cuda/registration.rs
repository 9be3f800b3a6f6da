//! Host memory that the device can read.

use std::any::Any;
use std::fmt;

use super::device::Device;
use super::driver::DevicePtr;
use crate::{Error, Result};

/// The maximum number of bytes in one registration, because drivers refuse several hundred gigabytes at once.
pub const MAX_REGISTRATION_BYTES: u64 = 64 << 30;

/// Host memory that kernels can read over the bus until this value is dropped. It owns the mapping, and unregisters the
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
