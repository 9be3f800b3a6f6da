//! A device with the kernels loaded.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::NoUninit;

use super::driver::{Driver, Function, Shape, Stream};
use super::image;
use crate::Result;

/// Threads of a block, as in `kernels/common.cuh`.
const THREADS: u32 = 256;

/// Threads of a warp.
const WARP: u64 = 32;

/// How long work on the device may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kernels. Their names are those in the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kernel {
    Claim,
    Apply,
    Load,
    Supers,
    Starts,
    Draw,
    Histogram,
    CollectKeys,
    Collect,
}

const NAMES: [&str; 9] = [
    "select_claim",
    "select_apply",
    "select_load",
    "select_supers",
    "select_starts",
    "select_draw",
    "select_histogram",
    "select_collect",
    "collect",
];

/// A GPU, with the kernels loaded and a stream of its own. Clones are the same device.
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
        // SAFETY: whoever has work on the stream has a clone of the device. That a stream cannot be ended changes
        // nothing.
        drop(unsafe { self.driver.end_stream(self.stream) });
    }
}

impl Device {
    /// Whether there is a GPU that can be used, and if not, why.
    ///
    /// # Errors
    /// There is none: the error says what is missing.
    pub fn available() -> Result<()> {
        real_available()
    }

    /// The GPU with this number, from 0.
    ///
    /// # Errors
    /// There is no such GPU, or the kernels cannot be loaded.
    pub fn open(number: u32) -> Result<Self> {
        Self::with_driver(real_driver(number)?, image::cache_folder().as_deref())
    }

    /// A device behind a driver of the caller's. Kernels that have to be compiled are kept in the folder `cache`.
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

    /// Its driver.
    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.0.driver
    }

    /// Its own stream.
    #[must_use]
    pub fn stream(&self) -> Stream {
        self.0.stream
    }

    /// Waits until the stream has done all its work: a minute at most, which is far longer than any of it takes.
    ///
    /// # Errors
    /// The work has failed, or takes too long.
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        self.driver().synchronize(stream, PATIENCE)
    }

    /// Runs a kernel in enough warps for `warps` of them to be busy, but at most in `blocks` blocks, which go on
    /// until all is done.
    ///
    /// # Safety
    /// The parameter is the kernel's, and its addresses are of memory that stays until the stream has come past.
    pub(crate) unsafe fn launch<P: NoUninit>(
        &self,
        kernel: Kernel,
        warps: u64,
        most_blocks: u32,
        stream: Stream,
        parameter: &P,
    ) -> Result<()> {
        let wanted = (warps * WARP).div_ceil(u64::from(THREADS)).max(1);
        let blocks = u32::try_from(wanted).unwrap_or(u32::MAX).min(most_blocks);
        let function = self.0.functions[kernel as usize];
        let shape = Shape { blocks, threads: THREADS };
        // SAFETY: as the caller says.
        unsafe { self.driver().launch(function, shape, stream, bytemuck::bytes_of(parameter)) }
    }

    /// Blocks that fill the device.
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
    crate::Error::new(crate::ErrorKind::Unavailable, "no GPU: relive-gpu is built without its feature `cuda`")
}
