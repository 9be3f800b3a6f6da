//! Devices of this machine, where the crate is built for them.

use super::driver::Driver;
use crate::Result;

#[cfg(feature = "cuda")]
pub(crate) fn available() -> Result<()> {
    super::real::available()
}

#[cfg(feature = "cuda")]
pub(crate) fn driver(number: u32) -> Result<Box<dyn Driver>> {
    Ok(Box::new(super::real::RealDriver::open(number)?))
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn available() -> Result<()> {
    Err(not_built())
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn driver(_number: u32) -> Result<Box<dyn Driver>> {
    Err(not_built())
}

#[cfg(not(feature = "cuda"))]
fn not_built() -> crate::Error {
    crate::Error::new(crate::ErrorKind::Unavailable, "no GPU: relive-gpu is built without its feature `cuda`")
}
