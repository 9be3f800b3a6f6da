//! The store of trajectories for training on GPUs: `relive.gpu`.
//!
//! [`GpuStore`] is a store in the process that created it; [`GpuReader`] reads a store in another process.
//! [`GpuLoader`] makes batches from either kind, and [`GpuWriter`] writes into a store in place. Python checks names of
//! columns and settings; this module checks shapes, types and lengths.

mod background;
mod batch;
mod changes;
mod draw;
mod given;
mod loader;
mod network;
mod on_device;
mod owned;
mod raise;
mod reader;
mod removal;
mod serve;
mod settings;
mod steps;
mod store;
mod together;
mod writer;

pub(crate) use loader::GpuLoader;
pub(crate) use raise::gpu_unavailable;
pub(crate) use reader::GpuReader;
pub(crate) use store::GpuStore;
pub(crate) use writer::GpuWriter;
