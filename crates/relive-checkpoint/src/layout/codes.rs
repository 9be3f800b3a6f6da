//! Numeric codes for the program's enumerations.

use relive_table::SelectorKind;
use relive_tensor::{Codec, DType};

use super::Malformed;

/// TensorFlow's number for a type.
pub(crate) fn dtype_code(dtype: DType) -> u8 {
    match dtype {
        DType::Float32 => 1,
        DType::Float64 => 2,
        DType::Int32 => 3,
        DType::UInt8 => 4,
        DType::Int16 => 5,
        DType::Int8 => 6,
        DType::String => 7,
        DType::Complex64 => 8,
        DType::Int64 => 9,
        DType::Bool => 10,
        DType::QInt8 => 11,
        DType::QUInt8 => 12,
        DType::QInt32 => 13,
        DType::BFloat16 => 14,
        DType::QInt16 => 15,
        DType::QUInt16 => 16,
        DType::UInt16 => 17,
        DType::Complex128 => 18,
        DType::Float16 => 19,
        DType::UInt32 => 22,
        DType::UInt64 => 23,
        DType::Float8E5M2 => 24,
        DType::Float8E4M3Fn => 25,
        DType::Int4 => 29,
        DType::UInt4 => 30,
    }
}

pub(crate) fn dtype_of(code: u8) -> Result<DType, Malformed> {
    let known = DType::ALL.into_iter().find(|dtype| dtype_code(*dtype) == code);
    known.ok_or(Malformed::Code { what: "the type of a tensor", code: code.into() })
}

pub(crate) fn codec_code(codec: Codec) -> u8 {
    match codec {
        Codec::Raw => 0,
        Codec::Snappy => 1,
        Codec::Lz4 => 2,
        Codec::Zstd => 3,
    }
}

pub(crate) fn codec_of(code: u8) -> Result<Codec, Malformed> {
    let known = Codec::ALL.into_iter().find(|codec| codec_code(*codec) == code);
    known.ok_or(Malformed::Code { what: "the codec of a tensor", code: code.into() })
}

/// Returns the code of the kind, and the exponent.
pub(crate) fn selector_code(selector: SelectorKind) -> (u32, f64) {
    match selector {
        SelectorKind::Fifo => (1, 0.0),
        SelectorKind::Lifo => (2, 0.0),
        SelectorKind::Uniform => (3, 0.0),
        SelectorKind::WithoutReplacement => (4, 0.0),
        SelectorKind::MinHeap => (5, 0.0),
        SelectorKind::MaxHeap => (6, 0.0),
        SelectorKind::Prioritized { exponent } => (7, exponent),
    }
}

pub(crate) fn selector_of(code: u32, exponent: f64) -> Result<SelectorKind, Malformed> {
    Ok(match code {
        1 => SelectorKind::Fifo,
        2 => SelectorKind::Lifo,
        3 => SelectorKind::Uniform,
        4 => SelectorKind::WithoutReplacement,
        5 => SelectorKind::MinHeap,
        6 => SelectorKind::MaxHeap,
        7 => SelectorKind::Prioritized { exponent },
        code => return Err(Malformed::Code { what: "the kind of a selector", code: code.into() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips_and_others_are_refused() {
        for dtype in DType::ALL {
            assert_eq!(dtype_of(dtype_code(dtype)), Ok(dtype));
        }
        for codec in Codec::ALL {
            assert_eq!(codec_of(codec_code(codec)), Ok(codec));
        }
        for code in 1..8 {
            assert_eq!(selector_code(selector_of(code, 0.0).unwrap()), (code, 0.0));
        }
        for wrong in [0, 20, 21, 31, 255] {
            assert!(dtype_of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(codec_of(4).unwrap_err().to_string(), "the codec of a tensor cannot be 4");
        assert!(selector_of(8, 0.0).is_err());
    }
}
