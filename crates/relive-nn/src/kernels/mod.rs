//! Arithmetic on plain slices: matrix products, elementwise functions, patches of images.
//!
//! Elementwise loops are written for the compiler's vectorizer and run under [`wide`], which picks the processor's
//! widest instructions. They add and multiply in the same order on every processor, so results do not depend on the
//! vector width.

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
