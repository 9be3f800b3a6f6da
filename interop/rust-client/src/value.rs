//! Tensors and nests as JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use relive::{DType, Nest, Shape, Tensor};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A tensor with its bytes in hexadecimal: one text for numbers, one per element for strings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TensorValue {
    dtype: String,
    shape: Vec<u32>,
    data: Vec<String>,
}

/// A structure around tensors.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NestValue {
    Leaf(TensorValue),
    List(Vec<NestValue>),
    Tuple(Vec<NestValue>),
    Dict(BTreeMap<String, NestValue>),
}

impl NestValue {
    pub(crate) fn nest(&self) -> Result<Nest<Tensor>, Failure> {
        let all = |values: &[NestValue]| values.iter().map(NestValue::nest).collect::<Result<Vec<_>, _>>();
        match self {
            Self::Leaf(value) => value.tensor().map(Nest::Leaf),
            Self::List(values) => all(values).map(Nest::List),
            Self::Tuple(values) => all(values).map(Nest::Tuple),
            Self::Dict(fields) => {
                let field = |(name, value): (&String, &NestValue)| Ok((name.clone(), value.nest()?));
                fields.iter().map(field).collect::<Result<_, Failure>>().map(Nest::Dict)
            }
        }
    }
}

impl TensorValue {
    fn tensor(&self) -> Result<Tensor, Failure> {
        let dtype: DType =
            self.dtype.parse().map_err(|_| Failure::new("Driver", format!("no dtype: {}", self.dtype)))?;
        let shape: Shape = self.shape.iter().copied().collect();
        let runs = self.data.iter().map(|run| from_hex(run)).collect::<Result<Vec<Vec<u8>>, _>>()?;
        let tensor = if dtype == DType::String {
            Tensor::from_strings(runs, shape)
        } else {
            Tensor::new(dtype, shape, Bytes::from(runs.concat()))
        };
        tensor.map_err(|error| Failure::new("Driver", error.to_string()))
    }
}

impl From<&Tensor> for TensorValue {
    fn from(tensor: &Tensor) -> Self {
        let numbers = tensor.bytes().map(|bytes| vec![to_hex(bytes)]);
        let strings = tensor.strings().map(|strings| strings.iter().map(|string| to_hex(string)).collect());
        Self {
            dtype: tensor.dtype().to_string(),
            shape: tensor.shape().dims().to_vec(),
            data: numbers.or(strings).unwrap_or_default(),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let pairs = text.as_bytes().chunks(2).map(digits);
    pairs.collect::<Option<_>>().ok_or_else(|| Failure::new("Driver", "no hexadecimal digits"))
}
