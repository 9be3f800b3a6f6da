#![doc = include_str!("../../docs/cuda.md")]
#![expect(unsafe_code, reason = "addresses of GPUs are numbers, and CUDA's calls are C")]

mod collect;
mod device;
mod driver;
mod image;
mod memory;
#[cfg(feature = "cuda")]
mod nvrtc;
mod plan;
#[cfg(feature = "cuda")]
mod real;
mod select;
mod store;
mod weights;

pub use collect::Collector;
pub use device::Device;
pub use driver::{Copy, DevicePtr, Driver, Event, Function, Module, Shape, Stream, driver_error};
pub use image::{SOURCES, fingerprint, shipped};
pub use memory::{DeviceBuffer, HostRegistration, MAX_REGISTRATION_BYTES};
pub use plan::{ALIGNMENT, ColumnPlan, Rows};
pub use store::DeviceStore;
pub use weights::DeviceWeights;
