#![doc = include_str!("../../docs/cuda.md")]
#![expect(unsafe_code, reason = "addresses of GPUs are numbers, and CUDA's calls are C")]

mod device;
mod driver;
mod image;
mod memory;
#[cfg(feature = "cuda")]
mod nvrtc;
mod open;
#[cfg(feature = "cuda")]
mod real;
mod select;
mod weights;

pub use device::Device;
pub use driver::{Copy, DevicePtr, Driver, Event, Function, Module, Shape, Stream};
pub use image::{SOURCES, fingerprint, shipped};
pub use memory::{DeviceBuffer, HostRegistration, MAX_REGISTRATION_BYTES};
pub use weights::DeviceWeights;
