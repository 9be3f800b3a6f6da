//! Device memory, and page-locked memory of the host.

use std::ptr;

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
        // Even empty buffers have their own address.
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
            // SAFETY: the memory is newly allocated and ours; it outlives the work, because this function waits for it.
            unsafe { device.driver().fill(buffer.memory, 0, bytes, device.stream())? };
            device.synchronize(device.stream())?;
        }
        Ok(buffer)
    }

    /// Writes values, starting at a byte offset, once the device's own stream has finished its work, and waits for the
    /// write.
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

    /// Reads values, starting at a byte offset, once the device's own stream has finished its work.
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
                "{bytes} bytes starting at byte {begin} are outside the {} bytes of device memory",
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

    pub(super) fn is_on(&self, device: &Device) -> bool {
        self.device.is(device)
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
        // SAFETY: the memory is from `allocate`, and all work on it is complete. If the call fails, the memory leaks.
        drop(unsafe { self.device.driver().free(self.memory) });
    }
}

/// Page-locked host memory, from which copies to the device run while the host continues. Freed on drop.
#[derive(Debug)]
pub(super) struct HostBuffer {
    device: Device,
    address: u64,
    bytes: u64,
}

impl HostBuffer {
    /// Allocates memory with unspecified contents.
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self> {
        let address = device.driver().allocate_host(bytes.max(1))?;
        Ok(Self { device: device.clone(), address, bytes })
    }

    /// Writes values, starting at a byte offset. The device must not be reading this memory.
    pub(super) fn write<T: NoUninit>(&mut self, begin: u64, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(
            begin + bytes.len() as u64 <= self.bytes,
            "{} bytes at {begin} of {}",
            bytes.len(),
            self.bytes
        );
        // SAFETY: the memory has this many bytes, which nothing else uses.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), (self.address + begin) as *mut u8, bytes.len()) };
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: the memory is from `allocate_host`, and all work on it is complete. If the call fails, the memory
        // leaks.
        drop(unsafe { self.device.driver().free_host(self.address) });
    }
}
