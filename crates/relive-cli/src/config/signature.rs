//! Signatures: nested tables and arrays around `{ shape, dtype }`.

use bytes::Bytes;
use half::{bf16, f16};
use relive_tensor::{DType, Nest, Shape, Signature, Tensor, TensorSpec};
use serde::Deserialize;
use toml::Value;

use super::place::{Place, ValueError};
use super::problem::plain;

/// The maximum nesting of a signature; the protocol's own limit also guards against endless recursion.
const MAX_DEPTH: usize = relive_wire::limits::MAX_SIGNATURE_DEPTH;

/// One column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecEntry {
    dtype: String,
    /// If it is absent, the rank is unknown. A value of -1 is an unknown size.
    shape: Option<Vec<i64>>,
    #[serde(default)]
    name: String,
    minimum: Option<Value>,
    maximum: Option<Value>,
}

/// Returns the signature in `value`, which is at `place`.
pub(super) fn signature(value: Value, place: &Place) -> Result<Signature, ValueError> {
    let signature = nest(value, place, 0)?;
    if signature.is_empty() {
        return Err(
            place.value_error("the signature has no columns; omit it, or give a column { shape, dtype }")
        );
    }
    Ok(signature)
}

/// A table whose `dtype` is a string is a column; other tables and arrays hold columns.
fn nest(value: Value, place: &Place, depth: usize) -> Result<Signature, ValueError> {
    if depth > MAX_DEPTH {
        return Err(place.value_error(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    match value {
        Value::Table(table) if table.get("dtype").is_some_and(Value::is_str) => {
            spec(Value::Table(table), place).map(Nest::Leaf)
        }
        Value::Table(table) => {
            let field = |(key, value): (String, Value)| {
                let inner = nest(value, &place.key(&key), depth + 1)?;
                Ok((key, inner))
            };
            table.into_iter().map(field).collect::<Result<_, _>>().map(Nest::Dict)
        }
        Value::Array(values) => {
            let element = |(index, value)| nest(value, &place.index(index), depth + 1);
            values.into_iter().enumerate().map(element).collect::<Result<_, _>>().map(Nest::List)
        }
        other => Err(place.value_error(format!(
            "{} is not a column; write {{ shape = [...], dtype = \"float32\" }}",
            other.type_str()
        ))),
    }
}

fn spec(value: Value, place: &Place) -> Result<TensorSpec, ValueError> {
    let entry: SpecEntry =
        value.try_into().map_err(|error: toml::de::Error| place.value_error(plain(error.message())))?;
    let dtype: DType = entry.dtype.parse().map_err(|error| place.key("dtype").value_error(error))?;
    let shape = entry.shape.map(|sizes| dims(&sizes, place)).transpose()?;
    let mut spec = TensorSpec::new(entry.name, dtype, shape);
    spec.bounds = match (entry.minimum, entry.maximum) {
        (Some(minimum), Some(maximum)) => Some((
            bound(&minimum, &spec, &place.key("minimum"))?,
            bound(&maximum, &spec, &place.key("maximum"))?,
        )),
        (None, None) => None,
        _ => return Err(place.value_error("give both minimum and maximum, or neither")),
    };
    Ok(spec)
}

fn dims(sizes: &[i64], place: &Place) -> Result<Vec<Option<u32>>, ValueError> {
    let dim = |size: &i64| match *size {
        -1 => Ok(None),
        size => u32::try_from(size).map(Some).map_err(|_| {
            let range = u32::MAX;
            place.key("shape").value_error(format!("size {size} must be -1 (variable) or from 0 to {range}"))
        }),
    };
    sizes.iter().map(dim).collect()
}

/// A bound is one number for all elements, or an array with one number for each element, in row-major order.
fn bound(value: &Value, spec: &TensorSpec, place: &Place) -> Result<Tensor, ValueError> {
    let (numbers, shape) = match value {
        Value::Array(numbers) => (numbers.as_slice(), known_shape(spec, place)?),
        number => (std::slice::from_ref(number), Shape::scalar()),
    };
    let mut bytes = Vec::new();
    for number in numbers {
        push_element(&mut bytes, spec.dtype, number).ok_or_else(|| {
            place.value_error(format!("{number} is not a valid bound of type {}", spec.dtype))
        })?;
    }
    Tensor::new(spec.dtype, shape, Bytes::from(bytes)).map_err(|error| place.value_error(error))
}

fn known_shape(spec: &TensorSpec, place: &Place) -> Result<Shape, ValueError> {
    let known = spec.shape.as_ref().and_then(|sizes| sizes.iter().copied().collect::<Option<Vec<u32>>>());
    let sizes = known.ok_or_else(|| {
        place.value_error("a bound for each element requires a shape without variable sizes")
    })?;
    Ok(Shape::from(sizes.as_slice()))
}

/// Appends `number` as `dtype`, unless that type cannot represent it.
fn push_element(bytes: &mut Vec<u8>, dtype: DType, number: &Value) -> Option<()> {
    let integer = number.as_integer();
    let float = number.as_float().or_else(|| integer.map(|integer| integer as f64));
    match dtype {
        DType::Float32 => bytes.extend_from_slice(&narrow(float?).to_le_bytes()),
        DType::Float64 => bytes.extend_from_slice(&float?.to_le_bytes()),
        DType::Float16 => bytes.extend_from_slice(&f16::from_f64(float?).to_le_bytes()),
        DType::BFloat16 => bytes.extend_from_slice(&bf16::from_f64(float?).to_le_bytes()),
        DType::Int8 => bytes.extend_from_slice(&i8::try_from(integer?).ok()?.to_le_bytes()),
        DType::Int16 => bytes.extend_from_slice(&i16::try_from(integer?).ok()?.to_le_bytes()),
        DType::Int32 => bytes.extend_from_slice(&i32::try_from(integer?).ok()?.to_le_bytes()),
        DType::Int64 => bytes.extend_from_slice(&integer?.to_le_bytes()),
        DType::UInt8 => bytes.extend_from_slice(&u8::try_from(integer?).ok()?.to_le_bytes()),
        DType::UInt16 => bytes.extend_from_slice(&u16::try_from(integer?).ok()?.to_le_bytes()),
        DType::UInt32 => bytes.extend_from_slice(&u32::try_from(integer?).ok()?.to_le_bytes()),
        DType::UInt64 => bytes.extend_from_slice(&u64::try_from(integer?).ok()?.to_le_bytes()),
        DType::Bool => bytes.push(u8::from(number.as_bool()?)),
        _ => return None,
    }
    Some(())
}

/// Returns the nearest float of half the size.
#[expect(clippy::cast_possible_truncation, reason = "a bound written in decimal is rounded to its type")]
fn narrow(value: f64) -> f32 {
    value as f32
}
