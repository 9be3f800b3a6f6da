//! Rust types of tensors' elements.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use num_complex::Complex;

use crate::dtype::DType;

/// An 8-bit float with 5 exponent and 2 mantissa bits, as its bit pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

/// An 8-bit float with 4 exponent and 3 mantissa bits, without infinities, as its bit pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8E4M3Fn(pub u8);

mod private {
    pub trait Sealed {}
}

/// A Rust type whose values are the elements of tensors of one [`DType`].
///
/// `bool` does not implement this trait, because not every byte is a valid `bool`; see
/// [`Tensor::from_bools`](crate::Tensor::from_bools) and [`Tensor::to_bools`](crate::Tensor::to_bools).
pub trait Element: Pod + private::Sealed {
    /// The element type of tensors of this Rust type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl private::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => Int8,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    u8 => UInt8,
    u16 => UInt16,
    u32 => UInt32,
    u64 => UInt64,
    f32 => Float32,
    f64 => Float64,
    f16 => Float16,
    bf16 => BFloat16,
    Complex<f32> => Complex64,
    Complex<f64> => Complex128,
    F8E5M2 => Float8E5M2,
    F8E4M3Fn => Float8E4M3Fn,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_agrees<T: Element>() {
        assert_eq!(T::DTYPE.size_bytes(), Some(size_of::<T>()), "{}", T::DTYPE);
    }

    #[test]
    fn rust_and_wire_sizes_agree() {
        size_agrees::<i8>();
        size_agrees::<i16>();
        size_agrees::<i32>();
        size_agrees::<i64>();
        size_agrees::<u8>();
        size_agrees::<u16>();
        size_agrees::<u32>();
        size_agrees::<u64>();
        size_agrees::<f32>();
        size_agrees::<f64>();
        size_agrees::<f16>();
        size_agrees::<bf16>();
        size_agrees::<Complex<f32>>();
        size_agrees::<Complex<f64>>();
        size_agrees::<F8E5M2>();
        size_agrees::<F8E4M3Fn>();
    }
}
