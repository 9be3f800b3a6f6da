//! Conversion between element types.

use bytemuck::{cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use relive_tensor::DType;

use super::window::Cast;
use crate::error::{Error, Result};
use crate::schema::Column;

/// The number of values converted at a time, through a buffer that stays in the L1 cache.
const CHUNK: usize = 512;

/// A conversion between types, with a factor. See [`Cast`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convert {
    /// Bool, an integer or a float.
    pub from: DType,
    /// A float.
    pub to: DType,
    /// The factor of each value, as a float32.
    pub scale: f32,
}

impl Convert {
    /// `None` if no conversion is needed.
    pub(super) fn new(column: &Column, cast: Cast) -> Result<Option<Self>> {
        use DType::{Float64, Int32, Int64, UInt32, UInt64};
        let from = column.dtype;
        #[expect(clippy::float_cmp, reason = "only a factor of exactly 1 changes nothing")]
        let same = from == cast.to && cast.scale == 1.0;
        if same {
            return Ok(None);
        }
        // Values are computed as float32, which a float64 would not show.
        let loses = cast.to == Float64 && matches!(from, Int32 | UInt32 | Int64 | UInt64 | Float64);
        if !is_number(from) || !is_float(cast.to) || loses || !cast.scale.is_finite() {
            return Err(Error::invalid(format!(
                "column {:?} cannot be cast from {} to {} with scale {}; supported are casts from bool, integers of 8 \
                 to 64 bits and floats of 16 to 64 bits to float16, bfloat16 or float32 with a finite scale, and to \
                 float64 from types of at most 16 bits and from float32",
                column.name,
                from.numpy_name(),
                cast.to.numpy_name(),
                cast.scale
            )));
        }
        Ok(Some(Self { from, to: cast.to, scale: cast.scale }))
    }

    /// Converts all of `input`; both slices start at an element.
    pub(super) fn run(self, input: &[u8], output: &mut [u8]) {
        if self.from == DType::UInt8 && matches!(self.to, DType::Float16 | DType::BFloat16) {
            return self.look_up(input, cast_slice_mut(output));
        }
        let (from, to) = (size(self.from), size(self.to));
        let mut values = [0_f32; CHUNK];
        for (input, output) in input.chunks(CHUNK * from).zip(output.chunks_mut(CHUNK * to)) {
            let values = &mut values[..input.len() / from];
            load(self.from, input, values);
            values.iter_mut().for_each(|value| *value = scaled(*value, self.scale));
            store(self.to, values, output);
        }
    }

    /// Converts each of the 256 possible values only once.
    fn look_up(self, input: &[u8], output: &mut [u16]) {
        let mut table = [0_u16; 256];
        let values: [f32; 256] =
            std::array::from_fn(|value| f32::from(u8::try_from(value).expect("256 values")) * self.scale);
        store(self.to, &values, cast_slice_mut(&mut table));
        for (&input, output) in input.iter().zip(output) {
            *output = table[usize::from(input)];
        }
    }
}

fn size(dtype: DType) -> usize {
    dtype.size_bytes().expect("a number")
}

pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64)
}

fn is_number(dtype: DType) -> bool {
    use DType::{Bool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    is_float(dtype) || matches!(dtype, Bool | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
}

/// NaN keeps its sign and payload. Processors differ in the NaN that infinity times 0 is, so this chooses one.
fn scaled(value: f32, scale: f32) -> f32 {
    let product = value * scale;
    if product.is_nan() && !value.is_nan() { f32::NAN } else { product }
}

#[expect(clippy::cast_precision_loss, reason = "the purpose of the conversion is to round")]
fn load(from: DType, input: &[u8], values: &mut [f32]) {
    match from {
        DType::Bool => each(input, values, |byte| f32::from(u8::from(byte != 0))),
        DType::Int8 => each(cast_slice::<u8, i8>(input), values, f32::from),
        DType::Int16 => each(cast_slice::<u8, i16>(input), values, f32::from),
        DType::UInt16 => each(cast_slice::<u8, u16>(input), values, f32::from),
        DType::Int32 => each(cast_slice::<u8, i32>(input), values, |value| value as f32),
        DType::UInt32 => each(cast_slice::<u8, u32>(input), values, |value| value as f32),
        DType::Int64 => each(cast_slice::<u8, i64>(input), values, |value| value as f32),
        DType::UInt64 => each(cast_slice::<u8, u64>(input), values, |value| value as f32),
        DType::Float16 => cast_slice::<u8, f16>(input).convert_to_f32_slice(values),
        DType::BFloat16 => cast_slice::<u8, bf16>(input).convert_to_f32_slice(values),
        DType::Float32 => values.copy_from_slice(cast_slice(input)),
        DType::Float64 => each(cast_slice::<u8, f64>(input), values, nearest),
        _ => each(input, values, f32::from),
    }
}

fn store(to: DType, values: &[f32], output: &mut [u8]) {
    match to {
        DType::Float16 => cast_slice_mut::<u8, f16>(output).convert_from_f32_slice(values),
        DType::BFloat16 => cast_slice_mut::<u8, bf16>(output).convert_from_f32_slice(values),
        DType::Float64 => each(values, cast_slice_mut::<u8, f64>(output), f64::from),
        _ => cast_slice_mut(output).copy_from_slice(values),
    }
}

fn each<A: Copy, B>(input: &[A], output: &mut [B], convert: impl Fn(A) -> B) {
    for (&input, output) in input.iter().zip(output) {
        *output = convert(input);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the purpose of the conversion is to round")]
fn nearest(value: f64) -> f32 {
    value as f32
}

/// Returns the bytes of one padding element.
pub(super) fn pad_bytes(dtype: DType, value: f64, column: &str) -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let element = element(dtype, value).ok_or_else(|| {
        Error::invalid(format!(
            "the padding value {value} of column {column:?} is not a valid {}; use a valid one, or 0",
            dtype.numpy_name()
        ))
    })?;
    bytes[..element.len()].copy_from_slice(&element);
    Ok(bytes)
}

fn element(dtype: DType, value: f64) -> Option<Vec<u8>> {
    if value == 0.0 {
        return Some(vec![0; dtype.size_bytes()?]);
    }
    Some(match dtype {
        DType::Float32 => nearest(value).to_le_bytes().to_vec(),
        DType::Float64 => value.to_le_bytes().to_vec(),
        DType::Float16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        _ => integer(dtype, value)?,
    })
}

fn integer(dtype: DType, value: f64) -> Option<Vec<u8>> {
    let (signed, bits) = match dtype {
        DType::Bool => (false, 1),
        DType::UInt8 => (false, 8),
        DType::UInt16 => (false, 16),
        DType::UInt32 => (false, 32),
        DType::UInt64 => (false, 64),
        DType::Int8 => (true, 8),
        DType::Int16 => (true, 16),
        DType::Int32 => (true, 32),
        DType::Int64 => (true, 64),
        _ => return None,
    };
    let least = if signed { -(2_f64.powi(bits - 1)) } else { 0.0 };
    let most = 2_f64.powi(if signed { bits - 1 } else { bits });
    let whole = value.trunc().to_bits() == value.to_bits();
    #[expect(clippy::cast_possible_truncation, reason = "an i128 holds every 65-bit integer")]
    (whole && value >= least && value < most).then(|| (value as i128).to_le_bytes()[..size(dtype)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    fn convert(from: DType, to: DType, scale: f32, input: &[u8]) -> Vec<u8> {
        let convert = Convert::new(&Column::new("a", from, &[]), Cast { to, scale }).unwrap().unwrap();
        let mut output = vec![0_u64; input.len() * 8];
        let bytes: &mut [u8] = cast_slice_mut(&mut output);
        convert.run(input, &mut bytes[..input.len() / size(from) * size(to)]);
        bytes[..input.len() / size(from) * size(to)].to_vec()
    }

    proptest! {
        #[test]
        fn bytes_are_converted_to_half_precision_elementwise(
            values in proptest::collection::vec(any::<u8>(), 0..1500),
            scale in 0.001_f32..2.0,
        ) {
            let expected: Vec<f32> = values.iter().map(|&value| f32::from(value) * scale).collect();
            let f16s: Vec<f16> = expected.iter().map(|&value| f16::from_f32(value)).collect();
            let bf16s: Vec<bf16> = expected.iter().map(|&value| bf16::from_f32(value)).collect();
            prop_assert_eq!(&convert(DType::UInt8, DType::Float16, scale, &values), cast_slice::<_, u8>(&f16s));
            prop_assert_eq!(&convert(DType::UInt8, DType::BFloat16, scale, &values), cast_slice::<_, u8>(&bf16s));
            prop_assert_eq!(&convert(DType::UInt8, DType::Float32, scale, &values), cast_slice::<_, u8>(&expected));
        }

        #[test]
        fn floats_are_converted_between_precisions(values in proptest::collection::vec(any::<f32>(), 0..1500)) {
            let f16s: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
            let doubles: Vec<f64> = values.iter().copied().map(f64::from).collect();
            let halved: Vec<f32> = values.iter().map(|&value| value * 0.5).collect();
            prop_assert_eq!(&convert(DType::Float32, DType::Float16, 1.0, cast_slice(&values)), cast_slice::<_, u8>(&f16s));
            prop_assert_eq!(&convert(DType::Float32, DType::Float64, 1.0, cast_slice(&values)), cast_slice::<_, u8>(&doubles));
            prop_assert_eq!(&convert(DType::Float64, DType::Float32, 0.5, cast_slice(&doubles)), cast_slice::<_, u8>(&halved));
        }
    }

    #[test]
    fn bools_and_integers_are_converted_to_the_nearest_float() {
        fn check<T: bytemuck::NoUninit>(from: DType, values: &[T], to: DType, expected: &[f64]) {
            let found = convert(from, to, 1.0, cast_slice(values));
            let found: Vec<f64> = match to {
                DType::Float64 => {
                    found.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
                }
                _ => found.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect(),
            };
            assert_eq!(found, expected, "{from} to {to}");
        }
        for to in [DType::Float32, DType::Float64] {
            // Any byte but 0 counts as true.
            check(DType::Bool, &[0_u8, 1, 2], to, &[0.0, 1.0, 1.0]);
            check(DType::Int8, &[i8::MIN, -1, i8::MAX], to, &[-128.0, -1.0, 127.0]);
            check(DType::Int16, &[i16::MIN, -1, i16::MAX], to, &[-32768.0, -1.0, 32767.0]);
            check(DType::UInt16, &[0, u16::MAX], to, &[0.0, 65535.0]);
        }
        // A tie is rounded to the even number.
        let (ties, even) = ([(1 << 24) + 1, (1 << 24) + 3], [16_777_216.0, 16_777_220.0]);
        check(DType::Int32, &ties, DType::Float32, &even);
        check(DType::UInt32, &ties.map(i32::cast_unsigned), DType::Float32, &even);
        check(DType::Int64, &ties.map(i64::from).map(|tie| -tie), DType::Float32, &even.map(|tie| -tie));
        check(DType::UInt64, &[1 << 40, u64::MAX], DType::Float32, &[2_f64.powi(40), 2_f64.powi(64)]);
    }

    #[test]
    fn nan_keeps_its_sign_and_payload() {
        let signaling = f32::from_bits(0xff81_2345);
        let bits = convert(DType::Float32, DType::Float32, 0.5, &signaling.to_le_bytes());
        assert_eq!(bits, 0xffc1_2345_u32.to_le_bytes());
        let wide = convert(DType::Float32, DType::Float64, 1.0, &signaling.to_le_bytes());
        assert_eq!(wide, (0xfff8_u64 << 48 | 0x1_2345 << 29).to_le_bytes());
        assert_eq!(convert(DType::Float64, DType::Float32, 1.0, &wide), bits);
        let product = convert(DType::Float32, DType::Float32, 0.0, &f32::INFINITY.to_le_bytes());
        assert_eq!(product, f32::NAN.to_le_bytes());
    }

    #[test]
    fn padding_must_be_of_its_type() {
        assert_eq!(pad_bytes(DType::Int8, -3.0, "a").unwrap()[..2], [253, 0]);
        assert_eq!(pad_bytes(DType::UInt64, 2_f64.powi(63), "a").unwrap()[7], 128);
        assert_eq!(pad_bytes(DType::Float16, 1.0, "a").unwrap()[..2], f16::ONE.to_le_bytes());
        for (dtype, value) in
            [(DType::UInt8, -1.0), (DType::UInt8, 256.0), (DType::Int32, 0.5), (DType::Bool, 2.0)]
        {
            let error = pad_bytes(dtype, value, "a").unwrap_err().to_string();
            assert!(error.contains(&value.to_string()), "{error}");
        }
    }

    #[test]
    fn unsupported_casts_are_refused() {
        for (from, to, scale) in [
            (DType::Complex64, DType::Float32, 1.0),
            (DType::Float32, DType::Int32, 1.0),
            (DType::Int32, DType::Float64, 1.0),
            (DType::UInt64, DType::Float64, 1.0),
            (DType::Float64, DType::Float64, 2.0),
            (DType::Float32, DType::Float16, f32::NAN),
        ] {
            let error = Convert::new(&Column::new("a", from, &[]), Cast { to, scale }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(
                error.to_string().contains("supported are casts from bool, integers of 8 to 64 bits"),
                "{error}"
            );
        }
        let same =
            Convert::new(&Column::new("a", DType::Float32, &[]), Cast { to: DType::Float32, scale: 1.0 });
        assert_eq!(same.unwrap(), None);
    }
}
