//! Element types of tensors.

use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements: every TensorFlow type that a chunk can carry.
///
/// Elements are little-endian in memory and on the wire. The quantized types (`QInt8` …) have the layout of the integer
/// after which they are named; `Int4` and `UInt4` take one byte each.
///
/// ```
/// use relive_tensor::DType;
/// assert_eq!(DType::Float32.to_string(), "float");
/// assert_eq!("float32".parse(), Ok(DType::Float32));
/// assert_eq!(DType::Complex64.size_bytes(), Some(8));
/// assert_eq!(DType::String.size_bytes(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of the variants are the names of the types")]
pub enum DType {
    Float32,
    Float64,
    Int32,
    UInt8,
    Int16,
    Int8,
    String,
    Complex64,
    Int64,
    Bool,
    QInt8,
    QUInt8,
    QInt32,
    BFloat16,
    QInt16,
    QUInt16,
    UInt16,
    Complex128,
    Float16,
    UInt32,
    UInt64,
    Float8E5M2,
    Float8E4M3Fn,
    Int4,
    UInt4,
}

impl DType {
    /// All element types, in the order of TensorFlow's numbers.
    pub const ALL: [Self; 25] = [
        Self::Float32,
        Self::Float64,
        Self::Int32,
        Self::UInt8,
        Self::Int16,
        Self::Int8,
        Self::String,
        Self::Complex64,
        Self::Int64,
        Self::Bool,
        Self::QInt8,
        Self::QUInt8,
        Self::QInt32,
        Self::BFloat16,
        Self::QInt16,
        Self::QUInt16,
        Self::UInt16,
        Self::Complex128,
        Self::Float16,
        Self::UInt32,
        Self::UInt64,
        Self::Float8E5M2,
        Self::Float8E4M3Fn,
        Self::Int4,
        Self::UInt4,
    ];

    /// Returns the number of bytes in one element, or `None` for strings, whose lengths vary.
    #[must_use]
    pub const fn size_bytes(self) -> Option<usize> {
        match self {
            Self::String => None,
            Self::UInt8
            | Self::Int8
            | Self::Bool
            | Self::QInt8
            | Self::QUInt8
            | Self::Float8E5M2
            | Self::Float8E4M3Fn
            | Self::Int4
            | Self::UInt4 => Some(1),
            Self::Int16 | Self::UInt16 | Self::QInt16 | Self::QUInt16 | Self::BFloat16 | Self::Float16 => {
                Some(2)
            }
            Self::Float32 | Self::Int32 | Self::UInt32 | Self::QInt32 => Some(4),
            Self::Float64 | Self::Int64 | Self::UInt64 | Self::Complex64 => Some(8),
            Self::Complex128 => Some(16),
        }
    }

    /// Returns TensorFlow's name of the type, which dm-reverb's messages use: `float`, `half`, `int64` …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Int32 => "int32",
            Self::UInt8 => "uint8",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::String => "string",
            Self::Complex64 => "complex64",
            Self::Int64 => "int64",
            Self::Bool => "bool",
            Self::QInt8 => "qint8",
            Self::QUInt8 => "quint8",
            Self::QInt32 => "qint32",
            Self::BFloat16 => "bfloat16",
            Self::QInt16 => "qint16",
            Self::QUInt16 => "quint16",
            Self::UInt16 => "uint16",
            Self::Complex128 => "complex128",
            Self::Float16 => "half",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E4M3Fn => "float8_e4m3fn",
            Self::Int4 => "int4",
            Self::UInt4 => "uint4",
        }
    }

    /// Returns the name of the type in numpy, PyTorch and JAX: `float32`, `float16`, `int64` …
    #[must_use]
    pub const fn numpy_name(self) -> &'static str {
        match self {
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            other => other.name(),
        }
    }

    /// Returns whether delta coding applies to tensors of this type, that is, to the plain integers of 8 to 64 bits.
    #[must_use]
    pub const fn delta_codable(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::UInt8
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the name of an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype {0:?}; use a TensorFlow or numpy name such as float32, int64, bool or string")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    /// Parses TensorFlow's names, and numpy's names (`float16`, `float32`, `float64`).
    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        let numpy = match text {
            "float16" => Some(Self::Float16),
            "float32" => Some(Self::Float32),
            "float64" => Some(Self::Float64),
            _ => None,
        };
        numpy
            .or_else(|| Self::ALL.into_iter().find(|dtype| dtype.name() == text))
            .ok_or_else(|| UnknownDType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_name_parses_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("float64".parse(), Ok(DType::Float64));
        assert_eq!("float16".parse(), Ok(DType::Float16));
        assert_eq!("resource".parse::<DType>(), Err(UnknownDType("resource".to_owned())));
    }

    #[test]
    fn only_integers_of_whole_bytes_are_delta_codable() {
        let codable: Vec<_> = DType::ALL.into_iter().filter(|d| d.delta_codable()).map(DType::name).collect();
        assert_eq!(codable, ["int32", "uint8", "int16", "int8", "int64", "uint16", "uint32", "uint64"]);
    }
}
