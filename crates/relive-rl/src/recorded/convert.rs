//! Conversion of recorded numbers to the types of an environment.

use relive_env::ArraySpec;
use relive_tensor::{DType, Tensor, TensorError};

/// How far an action may exceed its bounds, as a share of its range, to allow for rounding. Such an action is clipped.
const ROUNDING: f64 = 0.01;

/// Returns the numbers of a tensor, or `None` if its elements are not numbers of a supported type.
#[expect(clippy::cast_precision_loss, reason = "larger numbers are not within the bounds of any leaf")]
pub(super) fn numbers(tensor: &Tensor) -> Result<Option<Vec<f64>>, TensorError> {
    Ok(Some(match tensor.dtype() {
        DType::Float32 => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        DType::Float64 => tensor.to_vec()?,
        DType::Int32 => tensor.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
        DType::Int64 => tensor.to_vec::<i64>()?.into_iter().map(|number| number as f64).collect(),
        DType::Int16 => tensor.to_vec::<i16>()?.into_iter().map(f64::from).collect(),
        DType::Int8 => tensor.to_vec::<i8>()?.into_iter().map(f64::from).collect(),
        DType::UInt64 => tensor.to_vec::<u64>()?.into_iter().map(|number| number as f64).collect(),
        DType::UInt32 => tensor.to_vec::<u32>()?.into_iter().map(f64::from).collect(),
        DType::UInt16 => tensor.to_vec::<u16>()?.into_iter().map(f64::from).collect(),
        DType::UInt8 => tensor.to_vec::<u8>()?.into_iter().map(f64::from).collect(),
        DType::Bool => tensor.bytes().map_or(&[][..], |bytes| bytes).iter().copied().map(f64::from).collect(),
        _ => return Ok(None),
    }))
}

/// Returns the bounds of a leaf's element type.
pub(super) fn of_type(spec: &ArraySpec, _: usize) -> (f64, f64) {
    match spec.dtype {
        DType::Bool => (0.0, 1.0),
        DType::UInt8 => (0.0, 255.0),
        DType::UInt16 => (0.0, f64::from(u16::MAX)),
        DType::UInt32 => (0.0, f64::from(u32::MAX)),
        DType::UInt64 => (0.0, f64::INFINITY),
        DType::Int8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
        DType::Int16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        DType::Int32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// Writes a number as the leaf's type.
///
/// # Errors
/// The number is beyond the bounds, or not an integer as required.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds of the leaf")]
pub(super) fn write(
    spec: &ArraySpec,
    (low, high): (f64, f64),
    value: f64,
    element: &mut [u8],
) -> Result<(), String> {
    let is_float = matches!(spec.dtype, DType::Float32 | DType::Float64);
    let range = high - low;
    let slack = if is_float && range.is_finite() { ROUNDING * range } else { 0.0 };
    if value < low - slack || value > high + slack || (!is_float && value.fract() != 0.0) {
        return Err(format!("the environment has {spec}"));
    }
    let value = value.clamp(low, high);
    match spec.dtype {
        DType::Float32 => element.copy_from_slice(&(value as f32).to_le_bytes()),
        DType::Float64 => element.copy_from_slice(&value.to_le_bytes()),
        DType::Int8 => element.copy_from_slice(&(value as i8).to_le_bytes()),
        DType::Int16 => element.copy_from_slice(&(value as i16).to_le_bytes()),
        DType::Int32 => element.copy_from_slice(&(value as i32).to_le_bytes()),
        DType::UInt16 => element.copy_from_slice(&(value as u16).to_le_bytes()),
        DType::UInt32 => element.copy_from_slice(&(value as u32).to_le_bytes()),
        DType::UInt64 => element.copy_from_slice(&(value as u64).to_le_bytes()),
        DType::Int64 => element.copy_from_slice(&(value as i64).to_le_bytes()),
        DType::UInt8 | DType::Bool => element.copy_from_slice(&[value as u8]),
        _ => return Err(format!("{spec} is not supported in recorded data")),
    }
    Ok(())
}
