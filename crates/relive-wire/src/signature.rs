//! Signatures: nests of tensor specs, and TensorFlow's messages for them.

use bytes::Bytes;
use relive_tensor::{DType, Nest, Shape, Signature, Tensor, TensorSpec};

use crate::WireError;
use crate::dtype;
use crate::nested;
use crate::tensorflow::structured_value::Kind;
use crate::tensorflow::tensor_shape_proto::Dim;
use crate::tensorflow::{
    BoundedTensorSpecProto, NoneValue, StructuredValue, TensorProto, TensorShapeProto, TensorSpecProto,
};

/// Converts `signature` to a message.
#[must_use]
pub fn to_wire(signature: &Signature) -> StructuredValue {
    nested::to_wire(signature, &spec_to_wire, Some(&Kind::NoneValue(NoneValue {})))
}

/// Converts `message` to a signature.
///
/// # Errors
/// A leaf is not a tensor spec; a data type is unknown; a shape has a negative dimension other than -1; the nesting is
/// deeper than [`MAX_SIGNATURE_DEPTH`](crate::limits::MAX_SIGNATURE_DEPTH); or bounds that are given as lists of values
/// fill more than 64 MiB.
pub fn from_wire(message: &StructuredValue) -> Result<Signature, WireError> {
    nested::from_wire(message, &mut Specs { filled_bytes_left: MAX_FILLED_BYTES })
}

/// Converts a fully known shape to a message.
#[must_use]
pub fn shape_to_wire(shape: &Shape) -> TensorShapeProto {
    let dim = |size: &u32| Dim { size: i64::from(*size), name: String::new() };
    TensorShapeProto { dim: shape.dims().iter().map(dim).collect(), unknown_rank: false }
}

fn spec_to_wire(spec: &TensorSpec) -> Kind {
    let shape = Some(spec_shape_to_wire(spec.shape.as_deref()));
    let (name, dtype) = (spec.name.clone(), dtype::to_wire(spec.dtype).into());
    match &spec.bounds {
        None => Kind::TensorSpecValue(TensorSpecProto { name, shape, dtype }),
        Some((minimum, maximum)) => Kind::BoundedTensorSpecValue(BoundedTensorSpecProto {
            name,
            shape,
            dtype,
            minimum: Some(bound_to_wire(minimum)),
            maximum: Some(bound_to_wire(maximum)),
        }),
    }
}

fn spec_shape_to_wire(shape: Option<&[Option<u32>]>) -> TensorShapeProto {
    let Some(dims) = shape else {
        return TensorShapeProto { dim: Vec::new(), unknown_rank: true };
    };
    let dim = |size: &Option<u32>| Dim { size: size.map_or(-1, i64::from), name: String::new() };
    TensorShapeProto { dim: dims.iter().map(dim).collect(), unknown_rank: false }
}

/// Converts a bound to the form that TensorFlow expects: plain, uncompressed bytes.
fn bound_to_wire(bound: &Tensor) -> TensorProto {
    TensorProto {
        dtype: dtype::to_wire(bound.dtype()).into(),
        tensor_shape: Some(shape_to_wire(bound.shape())),
        tensor_content: bound.bytes().cloned().unwrap_or_default(),
        string_val: bound.strings().map(<[Bytes]>::to_vec).unwrap_or_default(),
        ..TensorProto::default()
    }
}

/// Parses the leaves of a signature.
struct Specs {
    /// The remaining bytes for bounds that are lists of values.
    filled_bytes_left: usize,
}

impl nested::Leaves for Specs {
    type Leaf = TensorSpec;

    fn leaf(&mut self, kind: Option<&Kind>) -> Result<Signature, String> {
        match kind {
            Some(Kind::TensorSpecValue(spec)) => {
                spec_from_wire(&spec.name, spec.shape.as_ref(), spec.dtype).map(Nest::Leaf)
            }
            Some(Kind::BoundedTensorSpecValue(spec)) => self.bounded(spec).map(Nest::Leaf),
            Some(Kind::NoneValue(_)) | None => Ok(Nest::None),
            Some(other) => Err(format!("a leaf must be a tensor spec, not {}", nested::kind_name(other))),
        }
    }

    fn error(&self, path: String, reason: String) -> WireError {
        WireError::Signature { path, reason }
    }
}

impl Specs {
    fn bounded(&mut self, message: &BoundedTensorSpecProto) -> Result<TensorSpec, String> {
        let mut spec = spec_from_wire(&message.name, message.shape.as_ref(), message.dtype)?;
        if let (Some(minimum), Some(maximum)) = (&message.minimum, &message.maximum) {
            spec.bounds = Some((self.bound(minimum)?, self.bound(maximum)?));
        }
        Ok(spec)
    }

    fn bound(&mut self, message: &TensorProto) -> Result<Tensor, String> {
        let spec = spec_from_wire("", message.tensor_shape.as_ref(), message.dtype)?;
        let dims = spec.shape.unwrap_or_default();
        let shape: Shape = dims.into_iter().map(|dim| dim.unwrap_or(0)).collect();
        let bytes = bound_bytes(message, spec.dtype, &shape, &mut self.filled_bytes_left)
            .ok_or_else(|| unreadable_bound(spec.dtype))?;
        Tensor::new(spec.dtype, shape, bytes).map_err(|error| error.to_string())
    }
}

fn spec_from_wire(name: &str, shape: Option<&TensorShapeProto>, number: i32) -> Result<TensorSpec, String> {
    let dtype = dtype::from_wire(i64::from(number))
        .ok_or_else(|| format!("data type number {number} cannot be stored in a table"))?;
    let shape = match shape {
        Some(shape) if !shape.unknown_rank => Some(dims_from_wire(&shape.dim)?),
        Some(_) => None,
        None => Some(Vec::new()),
    };
    Ok(TensorSpec { name: name.to_owned(), shape, dtype, bounds: None })
}

fn dims_from_wire(dims: &[Dim]) -> Result<Vec<Option<u32>>, String> {
    let known = |dim: &Dim| match dim.size {
        -1 => Ok(None),
        size => u32::try_from(size)
            .map(Some)
            .map_err(|_| format!("dimension {size} must be -1 or between 0 and {}", u32::MAX)),
    };
    dims.iter().map(known).collect()
}

fn unreadable_bound(dtype: DType) -> String {
    format!(
        "a bound of type {dtype} has no readable value, or repeats values over more than {MAX_FILLED_BYTES} bytes"
    )
}

/// Returns the bytes of a plain tensor, which are given either completely or as a list of values, the last of which is
/// repeated.
fn bound_bytes(
    message: &TensorProto,
    dtype: DType,
    shape: &Shape,
    filled_bytes_left: &mut usize,
) -> Option<Bytes> {
    if !message.tensor_content.is_empty() {
        return Some(message.tensor_content.clone());
    }
    let width = dtype.size_bytes()?;
    let wanted = usize::try_from(shape.num_elements()?).ok()?.checked_mul(width)?;
    *filled_bytes_left = filled_bytes_left.checked_sub(wanted)?;
    let mut bytes = listed_values(message, dtype)?;
    bytes.truncate(wanted);
    if let Some(start) = bytes.len().checked_sub(width) {
        let last = bytes.get(start..)?.to_vec();
        while bytes.len() < wanted {
            bytes.extend_from_slice(&last);
        }
    }
    Some(bytes.into())
}

/// The largest total size in bytes of a signature's bounds that are given as lists of values. A list of one value can
/// fill any shape, so a message of a few bytes could make the receiver allocate gigabytes. Real bounds are scalars or
/// have the shape of one step.
const MAX_FILLED_BYTES: usize = 1 << 26;

/// TensorFlow widens small integers to int32 in `int_val`; the low bytes are the value.
fn listed_values(message: &TensorProto, dtype: DType) -> Option<Vec<u8>> {
    let low = |values: &[i32], width: usize| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
    };
    Some(match dtype {
        DType::Float32 => message.float_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Float64 => message.double_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Complex64 => message.scomplex_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Complex128 => message.dcomplex_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Int64 => message.int64_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::UInt64 => message.uint64_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::UInt32 => message.uint32_val.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Bool => message.bool_val.iter().map(|v| u8::from(*v)).collect(),
        DType::Float16 | DType::BFloat16 => low(&message.half_val, 2),
        DType::Float8E5M2 | DType::Float8E4M3Fn => message.float8_val.to_vec(),
        DType::Int32 | DType::QInt32 => low(&message.int_val, 4),
        DType::Int16 | DType::UInt16 | DType::QInt16 | DType::QUInt16 => low(&message.int_val, 2),
        DType::Int8 | DType::UInt8 | DType::QInt8 | DType::QUInt8 | DType::Int4 | DType::UInt4 => {
            low(&message.int_val, 1)
        }
        DType::String => return None,
    })
}
