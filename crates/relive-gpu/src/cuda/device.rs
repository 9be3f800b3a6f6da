//! A device with loaded kernels.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytemuck::NoUninit;

use super::driver::{Driver, Function, Shape, Stream};
use super::image;
use crate::Result;

/// The number of threads per block, as in `kernels/common.cuh`.
const THREADS: u32 = 256;

/// The maximum number of threads per block of a collection, as in `kernels/collect.cu`. Many warps on few
/// multiprocessors read over the bus as fast as warps on many multiprocessors, and leave the other multiprocessors to
/// training.
const COLLECT_THREADS: u32 = 1024;

/// Threads per warp.
const WARP: u64 = 32;

/// How long a wait for work on the device lasts before it fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The kernels, named as in the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kernel {
    Claim,
    Apply,
    Load,
    Supers,
    Starts,
    Draw,
    Finish,
    Histogram,
    CollectKeys,
    Collect,
}

const NAMES: [&str; 10] = [
    "select_claim",
    "select_apply",
    "select_load",
    "select_supers",
    "select_starts",
    "select_draw",
    "select_finish",
    "select_histogram",
    "select_collect",
    "collect",
];

/// A GPU with loaded kernels and its own stream. Clones refer to the same device.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    driver: Box<dyn Driver>,
    functions: [Function; NAMES.len()],
    stream: Stream,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: all users of the stream hold a clone of the device. A failure to destroy the stream has no
        // consequences.
        drop(unsafe { self.driver.end_stream(self.stream) });
    }
}

impl Device {
    /// Checks whether a GPU is usable.
    ///
    /// # Errors
    /// No GPU is usable; the error states what is missing.
    pub fn available() -> Result<()> {
        real_available()
    }

    /// Opens the GPU with the given number, counted from 0. It stays open: further calls return the same device.
    ///
    /// # Errors
    /// The GPU does not exist, or its kernels cannot be loaded.
    pub fn open(number: u32) -> Result<Self> {
        static OPEN: Mutex<Vec<(u32, Device)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, device)) = open.iter().find(|(other, _)| *other == number) {
            return Ok(device.clone());
        }
        let device = Self::with_driver(real_driver(number)?, image::cache_folder().as_deref())?;
        open.push((number, device.clone()));
        Ok(device)
    }

    /// Creates a device with the caller's driver. Kernels that must be compiled are cached in the folder `cache`.
    ///
    /// # Errors
    /// The kernels cannot be loaded.
    pub fn with_driver(driver: Box<dyn Driver>, cache: Option<&Path>) -> Result<Self> {
        let module = image::load(&*driver, cache)?;
        let mut functions = [Function(0); NAMES.len()];
        for (function, name) in functions.iter_mut().zip(NAMES) {
            *function = driver.function(module, name)?;
        }
        let stream = driver.stream()?;
        Ok(Self(Arc::new(Inner { driver, functions, stream })))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the driver of the device.
    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.0.driver
    }

    /// Returns the device's own stream.
    #[must_use]
    pub fn stream(&self) -> Stream {
        self.0.stream
    }

    /// Waits until the stream has done all its work: for at most a minute, which is far longer than any work takes.
    ///
    /// # Errors
    /// The work failed, or takes too long.
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        self.driver().synchronize(stream, PATIENCE)
    }

    /// Runs a kernel with enough warps for `warps` pieces of work, but in at most `most_blocks` blocks; each block
    /// loops until all work is done.
    ///
    /// # Safety
    /// The parameter must match the kernel's, and its addresses must refer to memory that stays valid until the stream
    /// has passed this point.
    pub(crate) unsafe fn launch<P: NoUninit>(
        &self,
        kernel: Kernel,
        warps: u64,
        most_blocks: u32,
        stream: Stream,
        parameter: &P,
    ) -> Result<()> {
        let wide = kernel == Kernel::Collect && warps * WARP > u64::from(THREADS) * u64::from(most_blocks);
        let threads = if wide { COLLECT_THREADS } else { THREADS };
        let wanted = (warps * WARP).div_ceil(u64::from(threads)).max(1);
        let blocks = u32::try_from(wanted).unwrap_or(u32::MAX).min(most_blocks);
        let function = self.0.functions[kernel as usize];
        let shape = Shape { blocks, threads };
        // SAFETY: the caller's contract.
        unsafe { self.driver().launch(function, shape, stream, bytemuck::bytes_of(parameter)) }
    }

    /// Returns the number of blocks that fill the device.
    pub(crate) fn full(&self) -> u32 {
        self.driver().multiprocessors().saturating_mul(8).max(1)
    }
}

#[cfg(feature = "cuda")]
fn real_available() -> Result<()> {
    super::real::available()
}

#[cfg(feature = "cuda")]
fn real_driver(number: u32) -> Result<Box<dyn Driver>> {
    Ok(Box::new(super::real::RealDriver::open(number)?))
}

#[cfg(not(feature = "cuda"))]
fn real_available() -> Result<()> {
    Err(not_built())
}

#[cfg(not(feature = "cuda"))]
fn real_driver(_number: u32) -> Result<Box<dyn Driver>> {
    Err(not_built())
}

#[cfg(not(feature = "cuda"))]
fn not_built() -> crate::Error {
    crate::Error::new(
        crate::ErrorKind::Unavailable,
        "no GPU: relive-gpu was built without the feature `cuda`",
    )
}
