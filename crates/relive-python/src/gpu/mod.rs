//! The store of trajectories for training on GPUs: `relive.gpu`.
//!
//! [`GpuStore`] is the store in the process that makes it, [`GpuReader`] one that another process has made,
//! [`GpuLoader`] makes batches from either, and [`GpuWriter`] writes into one in place. Names of columns and settings
//! are checked in Python; shapes, types and lengths here.

mod background;
mod batch;
mod changes;
mod draw;
mod given;
mod loader;
mod network;
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
