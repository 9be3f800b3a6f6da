//! Signatures: nests of tensor specs, and TensorFlow's messages for them.

use std::collections::HashMap;

use bytes::Bytes;
use relive_tensor::{DType, Nest, Shape, Signature, Tensor, TensorSpec};

use crate::WireError;
use crate::dtype;
use crate::limits::MAX_SIGNATURE_DEPTH;
use crate::tensorflow::structured_value::Kind;
use crate::tensorflow::tensor_shape_proto::Dim;
use crate::tensorflow::{
    BoundedTensorSpecProto, DictValue, ListValue, NamedTupleValue, NoneValue, PairValue, StructuredValue,
    TensorProto, TensorShapeProto, TensorSpecProto, TupleValue,
};

/// The message for `signature`.
#[must_use]
pub fn to_wire(signature: &Signature) -> StructuredValue {
    let values = |nests: &[Signature]| nests.iter().map(to_wire).collect();
    let kind = match signature {
        Nest::Leaf(spec) => spec_to_wire(spec),
        Nest::List(nests) => Kind::ListValue(ListValue { values: values(nests) }),
        Nest::Tuple(nests) => Kind::TupleValue(TupleValue { values: values(nests) }),
        Nest::Dict(fields) => {
            let fields = fields.iter().map(|(key, nest)| (key.clone(), to_wire(nest)));
            Kind::DictValue(DictValue { fields: fields.collect() })
        }
        Nest::NamedTuple { name, fields } => {
            let pair = |(key, nest): &(String, Signature)| PairValue {
                key: key.clone(),
                value: Some(to_wire(nest)),
            };
            Kind::NamedTupleValue(NamedTupleValue {
                name: name.clone(),
                values: fields.iter().map(pair).collect(),
            })
        }
        Nest::None => Kind::NoneValue(NoneValue {}),
    };
    StructuredValue { kind: Some(kind) }
}

/// The signature that `message` describes.
///
/// # Errors
/// Leaves that are not tensor specs, unknown data types, shapes with negative dimensions other than -1, nesting deeper
/// than [`MAX_SIGNATURE_DEPTH`], bounds that repeat a value over more than 64 MiB.
pub fn from_wire(message: &StructuredValue) -> Result<Signature, WireError> {
    Reader { path: Vec::new(), filled_bytes_left: MAX_FILLED_BYTES }.nest(message)
}

/// The message for a fully known shape.
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

/// A bound as TensorFlow reads it: plain bytes, uncompressed.
fn bound_to_wire(bound: &Tensor) -> TensorProto {
    TensorProto {
        dtype: dtype::to_wire(bound.dtype()).into(),
        tensor_shape: Some(shape_to_wire(bound.shape())),
        tensor_content: bound.bytes().cloned().unwrap_or_default(),
        string_val: bound.strings().map(<[Bytes]>::to_vec).unwrap_or_default(),
        ..TensorProto::default()
    }
}

struct Reader {
    path: Vec<String>,
    /// Bytes that bounds given as lists of values may still take.
    filled_bytes_left: usize,
}

impl Reader {
    fn nest(&mut self, message: &StructuredValue) -> Result<Signature, WireError> {
        if self.path.len() > MAX_SIGNATURE_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_SIGNATURE_DEPTH} levels")));
        }
        match message.kind.as_ref() {
            Some(Kind::TensorSpecValue(spec)) => {
                self.spec(&spec.name, spec.shape.as_ref(), spec.dtype).map(Nest::Leaf)
            }
            Some(Kind::BoundedTensorSpecValue(spec)) => self.bounded(spec).map(Nest::Leaf),
            Some(Kind::ListValue(list)) => Ok(Nest::List(self.values(&list.values)?)),
            Some(Kind::TupleValue(tuple)) => Ok(Nest::Tuple(self.values(&tuple.values)?)),
            Some(Kind::DictValue(dict)) => self.dict(&dict.fields),
            Some(Kind::NamedTupleValue(named)) => self.named_tuple(named),
            Some(Kind::NoneValue(_)) | None => Ok(Nest::None),
            Some(other) => Err(self.error(format!("a leaf must be a tensor spec, not {}", kind_name(other)))),
        }
    }

    fn values(&mut self, values: &[StructuredValue]) -> Result<Vec<Signature>, WireError> {
        values.iter().enumerate().map(|(i, value)| self.child(&i.to_string(), value)).collect()
    }

    fn dict(&mut self, fields: &HashMap<String, StructuredValue>) -> Result<Signature, WireError> {
        let read = |(key, value): (&String, &StructuredValue)| Ok((key.clone(), self.child(key, value)?));
        Ok(Nest::Dict(fields.iter().map(read).collect::<Result<_, WireError>>()?))
    }

    fn named_tuple(&mut self, named: &NamedTupleValue) -> Result<Signature, WireError> {
        let mut fields = Vec::with_capacity(named.values.len());
        for pair in &named.values {
            let value = pair.value.clone().unwrap_or_default();
            fields.push((pair.key.clone(), self.child(&pair.key, &value)?));
        }
        Ok(Nest::NamedTuple { name: named.name.clone(), fields })
    }

    fn child(&mut self, part: &str, message: &StructuredValue) -> Result<Signature, WireError> {
        self.path.push(part.to_owned());
        let nest = self.nest(message)?;
        self.path.pop();
        Ok(nest)
    }

    fn spec(
        &self,
        name: &str,
        shape: Option<&TensorShapeProto>,
        number: i32,
    ) -> Result<TensorSpec, WireError> {
        let dtype = dtype::from_wire(i64::from(number))
            .ok_or_else(|| self.error(format!("data type number {number} cannot be stored in a table")))?;
        let shape = match shape {
            Some(shape) if !shape.unknown_rank => Some(self.dims(&shape.dim)?),
            Some(_) => None,
            None => Some(Vec::new()),
        };
        Ok(TensorSpec { name: name.to_owned(), shape, dtype, bounds: None })
    }

    fn dims(&self, dims: &[Dim]) -> Result<Vec<Option<u32>>, WireError> {
        let known = |dim: &Dim| match dim.size {
            -1 => Ok(None),
            size => u32::try_from(size)
                .map(Some)
                .map_err(|_| self.error(format!("dimension {size} is not -1 or between 0 and {}", u32::MAX))),
        };
        dims.iter().map(known).collect()
    }

    fn bounded(&mut self, message: &BoundedTensorSpecProto) -> Result<TensorSpec, WireError> {
        let mut spec = self.spec(&message.name, message.shape.as_ref(), message.dtype)?;
        if let (Some(minimum), Some(maximum)) = (&message.minimum, &message.maximum) {
            spec.bounds = Some((self.bound(minimum)?, self.bound(maximum)?));
        }
        Ok(spec)
    }

    fn bound(&mut self, message: &TensorProto) -> Result<Tensor, WireError> {
        let spec = self.spec("", message.tensor_shape.as_ref(), message.dtype)?;
        let dims = spec.shape.unwrap_or_default();
        let shape: Shape = dims.into_iter().map(|dim| dim.unwrap_or(0)).collect();
        let bytes = bound_bytes(message, spec.dtype, &shape, &mut self.filled_bytes_left)
            .ok_or_else(|| self.error(unreadable_bound(spec.dtype)))?;
        Tensor::new(spec.dtype, shape, bytes).map_err(|error| self.error(error.to_string()))
    }

    fn error(&self, reason: String) -> WireError {
        WireError::Signature { path: self.path.join("/"), reason }
    }
}

fn unreadable_bound(dtype: DType) -> String {
    format!(
        "a bound of type {dtype} has no readable value, or repeats values over {MAX_FILLED_BYTES} bytes in all"
    )
}

/// The bytes of a plain tensor: given whole, or as a list of values whose last one repeats.
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

/// Most bytes of all bounds of a signature that are given as lists of values: a list of one value fills any shape, and a
/// message of a few bytes could ask for gigabytes. Bounds are scalars or have the shape of one step.
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

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Float64Value(_) => "a float",
        Kind::Int64Value(_) => "an integer",
        Kind::StringValue(_) => "a string",
        Kind::BoolValue(_) => "a bool",
        Kind::TensorShapeValue(_) => "a shape",
        Kind::TensorDtypeValue(_) => "a data type",
        Kind::TypeSpecValue(_) => "a type spec",
        Kind::NoneValue(_)
        | Kind::TensorSpecValue(_)
        | Kind::BoundedTensorSpecValue(_)
        | Kind::ListValue(_)
        | Kind::TupleValue(_)
        | Kind::DictValue(_)
        | Kind::NamedTupleValue(_) => "a nest",
    }
}
