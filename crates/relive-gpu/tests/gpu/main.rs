//! The store, selection and the driver's calls, with and without a GPU.

mod cuda;
mod device;
mod kernels;
mod select;
mod store_on_device;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod support;
