//! Data types and their TensorFlow numbers.

use relive_tensor::DType;

use crate::tensorflow::DataType;

/// Returns TensorFlow's number for `dtype`.
#[must_use]
pub fn to_wire(dtype: DType) -> DataType {
    PAIRS.iter().find(|(ours, _)| *ours == dtype).map_or(DataType::DtInvalid, |(_, theirs)| *theirs)
}

/// Returns the type with TensorFlow's `number`, or `None` for types that chunks do not support (resources, variants,
/// unknown numbers).
#[must_use]
pub fn from_wire(number: i64) -> Option<DType> {
    PAIRS.iter().find(|(_, theirs)| i64::from(*theirs as i32) == number).map(|(ours, _)| *ours)
}

const PAIRS: [(DType, DataType); 25] = [
    (DType::Float32, DataType::DtFloat),
    (DType::Float64, DataType::DtDouble),
    (DType::Int32, DataType::DtInt32),
    (DType::UInt8, DataType::DtUint8),
    (DType::Int16, DataType::DtInt16),
    (DType::Int8, DataType::DtInt8),
    (DType::String, DataType::DtString),
    (DType::Complex64, DataType::DtComplex64),
    (DType::Int64, DataType::DtInt64),
    (DType::Bool, DataType::DtBool),
    (DType::QInt8, DataType::DtQint8),
    (DType::QUInt8, DataType::DtQuint8),
    (DType::QInt32, DataType::DtQint32),
    (DType::BFloat16, DataType::DtBfloat16),
    (DType::QInt16, DataType::DtQint16),
    (DType::QUInt16, DataType::DtQuint16),
    (DType::UInt16, DataType::DtUint16),
    (DType::Complex128, DataType::DtComplex128),
    (DType::Float16, DataType::DtHalf),
    (DType::UInt32, DataType::DtUint32),
    (DType::UInt64, DataType::DtUint64),
    (DType::Float8E5M2, DataType::DtFloat8E5m2),
    (DType::Float8E4M3Fn, DataType::DtFloat8E4m3fn),
    (DType::Int4, DataType::DtInt4),
    (DType::UInt4, DataType::DtUint4),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_number_round_trips() {
        for (ours, _) in PAIRS {
            let wire = to_wire(ours);
            assert_ne!(wire, DataType::DtInvalid);
            assert_eq!(from_wire(i64::from(wire as i32)), Some(ours));
        }
    }

    #[test]
    fn resources_variants_and_unknown_numbers_are_no_chunk_types() {
        for number in [-1, 0, 20, 21, 26, 31, 1 << 40] {
            assert_eq!(from_wire(number), None, "number {number}");
        }
    }
}
