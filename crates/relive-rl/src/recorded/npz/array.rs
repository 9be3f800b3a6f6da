//! Arrays in numpy's own format (`.npy`), versions 1 to 3.

use relive_tensor::DType;

/// An array: its numbers row by row, in the byte order of the file.
#[derive(Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// Element types by numpy's codes.
const TYPES: [(&str, DType); 11] = [
    ("<f4", DType::Float32),
    ("<f8", DType::Float64),
    ("<i8", DType::Int64),
    ("<i4", DType::Int32),
    ("<i2", DType::Int16),
    ("|i1", DType::Int8),
    ("|u1", DType::UInt8),
    ("<u2", DType::UInt16),
    ("<u4", DType::UInt32),
    ("<u8", DType::UInt64),
    ("|b1", DType::Bool),
];

impl Array {
    /// Parses the file of an array.
    pub(super) fn parse(file: &[u8]) -> Result<Array, String> {
        let no_array = || "it is not a numpy array".to_owned();
        let major = *file.strip_prefix(MAGIC).and_then(|rest| rest.first()).ok_or_else(no_array)?;
        let size = if major == 1 { 2 } else { 4 };
        let begin = MAGIC.len() + 2 + size;
        let length = file.get(begin - size..begin).ok_or_else(no_array)?;
        let length = length.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let end = begin.checked_add(length).ok_or_else(no_array)?;
        let header = file.get(begin..end).ok_or_else(no_array)?;
        let header = std::str::from_utf8(header).map_err(|_| no_array())?;
        let (dtype, shape) = described(header)?;
        let bytes = file.get(end..).unwrap_or_default().to_vec();
        let elements =
            shape.iter().try_fold(dtype.size_bytes().unwrap_or(1), |all, dim| all.checked_mul(*dim));
        if elements != Some(bytes.len()) {
            return Err(format!("it has {} bytes, which do not fit the shape {shape:?}", bytes.len()));
        }
        Ok(Array { dtype, shape, bytes })
    }

    /// Returns the length of the first dimension.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Returns the number at a flat index.
    #[expect(clippy::cast_precision_loss, reason = "whole numbers of data sets are small")]
    pub(crate) fn number(&self, index: usize) -> f64 {
        let size = self.dtype.size_bytes().unwrap_or(1);
        let bytes = self.bytes.get(index * size..(index + 1) * size).unwrap_or(&[0; 8][..size]);
        let of = |bytes: &[u8]| {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        let signed = |bits: u32| ((of(bytes) << (64 - bits)).cast_signed() >> (64 - bits)) as f64;
        match self.dtype {
            DType::Float32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap_or_default())),
            DType::Float64 => f64::from_le_bytes(bytes.try_into().unwrap_or_default()),
            DType::Int8 => signed(8),
            DType::Int16 => signed(16),
            DType::Int32 => signed(32),
            DType::Int64 => signed(64),
            _ => of(bytes) as f64,
        }
    }
}

/// Returns the type and shape in a header, which is the text of a Python dictionary.
fn described(header: &str) -> Result<(DType, Vec<usize>), String> {
    let value = |key: &str| {
        let rest = header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        rest.ok_or_else(|| format!("its header lacks {key}"))
    };
    let code = value("descr")?;
    let code = code.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map_or(code, |(code, _)| code);
    let dtype = TYPES.iter().find(|(name, _)| *name == code).map(|(_, dtype)| *dtype);
    let dtype = dtype.ok_or_else(|| {
        format!(
            "its data type is `{}`, but it must be a little-endian number type: bool, an integer type, float32 or float64",
            code.trim()
        )
    })?;
    let dims = value("shape")?;
    let dims = dims.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(dims, _)| dims);
    let dims = dims.ok_or("its header has no shape")?.split(',').map(str::trim);
    let shape: Result<Vec<usize>, _> = dims.filter(|dim| !dim.is_empty()).map(str::parse).collect();
    let shape = shape.map_err(|_| "its header has no shape".to_owned())?;
    if value("fortran_order")?.starts_with("True") && shape.len() > 1 {
        return Err("it is in Fortran order; save numpy.ascontiguousarray of it".to_owned());
    }
    Ok((dtype, shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), bytes].concat()
    }

    fn head(code: &str, order: &str, shape: &str) -> String {
        format!("{{'descr': '{code}', 'fortran_order': {order}, 'shape': {shape}, }}   \n")
    }

    #[test]
    fn numbers_of_all_types_are_read() {
        for (code, bytes, expected) in [
            ("<f4", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0][..], [1.0, -2.0]),
            ("<i2", &[1, 0, 0xfe, 0xff], [1.0, -2.0]),
            ("|i1", &[1, 0xfe], [1.0, -2.0]),
            ("|u1", &[1, 0xfe], [1.0, 254.0]),
            ("|b1", &[1, 0], [1.0, 0.0]),
        ] {
            let array = Array::parse(&file(&head(code, "False", "(2,)"), bytes)).unwrap();
            assert_eq!([array.number(0), array.number(1)], expected, "{code}");
            assert_eq!(array.rows(), 2);
        }
    }

    #[test]
    fn unreadable_npz_arrays_are_reported() {
        for (file, expected) in [
            (b"PK".to_vec(), "not a numpy array"),
            (file(&head("|O", "False", "(2,)"), &[]), "little-endian number type"),
            (file(&head(">f4", "False", "(1,)"), &[0; 4]), "little-endian number type"),
            (file(&head("<f4", "True", "(2, 2)"), &[0; 16]), "Fortran order"),
            (file(&head("<f4", "False", "(3,)"), &[0; 8]), "8 bytes"),
            (file(&head("<f4", "False", "(18446744073709551615, 2)"), &[0; 8]), "8 bytes"),
            (file("{}", &[]), "lacks descr"),
        ] {
            let error = Array::parse(&file).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
