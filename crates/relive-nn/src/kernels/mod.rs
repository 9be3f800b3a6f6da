//! Arithmetic on plain slices: products of matrices, elementwise functions, patches of images.
//!
//! Elementwise loops are written so that the compiler vectorises them, and run under [`wide`], which picks the widest
//! instructions of the processor. They add and multiply in the same order everywhere, so that the width does not
//! change the numbers.

pub(crate) mod activation;
pub(crate) mod buffers;
pub(crate) mod gemm;
pub(crate) mod inputs;
pub(crate) mod math;
pub(crate) mod narrow;
pub(crate) mod outer;
pub(crate) mod patches;
pub(crate) mod rows;

pub(crate) use math::wide;
