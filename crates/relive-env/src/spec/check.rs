//! Checks of values against their specs.

use relive_tensor::DType;

use super::ArraySpec;
use crate::error::Mismatch;

/// Checks that `spec` allows the elements in `bytes`, little endian.
///
/// Complex numbers and 8-bit floats have no order, so all their values are allowed.
pub(crate) fn check_leaf(path: &str, spec: &ArraySpec, bytes: &[u8]) -> Result<(), Box<Mismatch>> {
    let Some(size) = spec.dtype.size_bytes() else { return Ok(()) };
    for (index, element) in bytes.chunks_exact(size).enumerate() {
        let Some(value) = number(spec.dtype, element) else { return Ok(()) };
        let (low, high) = spec.bounds(index);
        if value.is_nan() || value < low || value > high {
            return Err(Mismatch::boxed(path, spec, format_args!("{value} at element {index}")));
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "bounds are compared as f64")]
fn number(dtype: DType, bytes: &[u8]) -> Option<f64> {
    macro_rules! read {
        ($type:ty) => {
            bytemuck::pod_read_unaligned::<$type>(bytes)
        };
    }
    Some(match dtype {
        DType::Float32 => f64::from(read!(f32)),
        DType::Float64 => read!(f64),
        DType::Int8 | DType::Int4 => f64::from(read!(i8)),
        DType::Int16 => f64::from(read!(i16)),
        DType::Int32 => f64::from(read!(i32)),
        DType::Int64 => read!(i64) as f64,
        DType::UInt8 | DType::Bool | DType::UInt4 => f64::from(read!(u8)),
        DType::UInt16 => f64::from(read!(u16)),
        DType::UInt32 => f64::from(read!(u32)),
        DType::UInt64 => read!(u64) as f64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_bounds_are_reported_with_their_path() {
        let spec = ArraySpec::new("", DType::Float32, [3]).bounded(0.0, 1.0);
        let check = |values: [f32; 3]| check_leaf("a", &spec, bytemuck::cast_slice(&values));
        assert_eq!(check([0.0, 1.0, 0.5]), Ok(()));
        let wrong = check([0.0, 1.5, 0.5]).unwrap_err();
        assert_eq!(wrong.to_string(), "at `a`: expected float32 (3,) in 0..=1, got 1.5 at element 1");
        assert!(check([f32::NAN, 0.0, 0.0]).is_err());
        assert!(check_leaf("", &ArraySpec::discrete("", 2), &2_i32.to_le_bytes()).is_err());
    }
}
