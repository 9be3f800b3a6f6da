#![doc = include_str!("../../docs/cuda.md")]
#![expect(unsafe_code, reason = "device addresses are plain numbers, and CUDA's interface is C")]

mod batches;
mod collect;
mod device;
mod draws;
mod driver;
mod event;
mod image;
mod memory;
#[cfg(feature = "cuda")]
mod nvrtc;
mod plan;
#[cfg(feature = "cuda")]
mod real;
mod registration;
mod select;
mod store;
mod weights;

pub use batches::DeviceBatches;
pub use collect::Collector;
pub use device::Device;
pub use draws::DeviceDraws;
pub use driver::{Copy, DevicePtr, Driver, Event, Function, Module, Shape, Stream, driver_error};
pub use event::{DeviceEvent, DeviceStream};
pub use image::{SOURCES, fingerprint, shipped};
pub use memory::DeviceBuffer;
pub use plan::{ALIGNMENT, ColumnPlan, Rows};
pub use registration::{HostRegistration, MAX_REGISTRATION_BYTES};
pub use store::DeviceStore;
pub use weights::DeviceWeights;
