//! Tensors: construction, views, rows and joins.

use bytes::Bytes;
use num_complex::Complex;
use proptest::prelude::*;
use relive_tensor::{DType, Element, F8E4M3Fn, F8E5M2, Shape, Tensor, TensorError};

use crate::strategies::batches;

fn round_trip<T: Element + PartialEq + std::fmt::Debug>(values: [T; 2]) {
    let tensor = Tensor::from_slice(&values, [2, 1]).expect("two elements");
    assert_eq!((tensor.dtype(), tensor.num_elements()), (T::DTYPE, 2));
    assert_eq!(tensor.to_vec::<T>(), Ok(values.to_vec()));
    assert_eq!(tensor.rows(1..2).and_then(|row| row.to_vec::<T>()), Ok(values[1..].to_vec()));
    let scalar = Tensor::scalar(values[0]);
    assert_eq!((scalar.shape(), scalar.as_slice::<T>().map(<[T]>::len)), (&Shape::scalar(), Ok(1)));
    let other =
        if T::DTYPE == DType::Int8 { scalar.to_vec::<u8>().err() } else { scalar.to_vec::<i8>().err() };
    assert!(other.is_some_and(|error| matches!(error, TensorError::DType { .. })));
}

#[test]
fn every_element_type_round_trips() {
    round_trip([i8::MIN, 1]);
    round_trip([i16::MIN, 1]);
    round_trip([i32::MIN, 1]);
    round_trip([i64::MIN, 1]);
    round_trip([u8::MAX, 1]);
    round_trip([u16::MAX, 1]);
    round_trip([u32::MAX, 1]);
    round_trip([u64::MAX, 1]);
    round_trip([-0.5_f32, f32::INFINITY]);
    round_trip([-0.5_f64, f64::MAX]);
    round_trip([half::f16::from_f32(1.5), half::f16::MAX]);
    round_trip([half::bf16::from_f32(1.5), half::bf16::MIN]);
    round_trip([Complex::new(1.0_f32, -2.0), Complex::new(0.0, 3.0)]);
    round_trip([Complex::new(1.0_f64, -2.0), Complex::new(0.0, 3.0)]);
    round_trip([F8E5M2(0x7b), F8E5M2(1)]);
    round_trip([F8E4M3Fn(0x7e), F8E4M3Fn(1)]);
}

#[test]
fn bytes_are_little_endian_and_row_major() {
    let tensor = Tensor::from_slice(&[0x0102_u16, 0x0304, 5, 6], [2, 2]).unwrap();
    assert_eq!(tensor.bytes().unwrap().as_ref(), [2, 1, 4, 3, 5, 0, 6, 0]);
    assert_eq!(tensor.strings(), None);
    assert_eq!(format!("{tensor:?}"), "Tensor(uint16[2,2], 8 bytes)");
}

#[test]
fn lengths_must_match_exactly() {
    let length = |bytes: &'static [u8], shape: [u32; 2]| match Tensor::new(
        DType::Int16,
        shape,
        Bytes::from_static(bytes),
    ) {
        Err(TensorError::Length { expected, actual, .. }) => Some((expected, actual)),
        _ => None,
    };
    assert_eq!(length(&[0; 5], [1, 3]), Some((6, 5)));
    assert_eq!(length(&[0; 7], [1, 3]), Some((6, 7)));
    assert_eq!(length(&[0], [1, 0]), Some((0, 1)));
    let huge = Tensor::new(DType::Int16, [u32::MAX; 3], Bytes::new());
    assert!(matches!(huge, Err(TensorError::TooLarge { .. })), "{huge:?}");
    let deep = Tensor::from_slice::<u8>(&[0], Shape::from_iter([1; 255]));
    assert_eq!(deep, Err(TensorError::Rank { rank: 255 }));
    assert_eq!(Tensor::new(DType::String, [0], Bytes::new()), Err(TensorError::Strings));
    assert!(matches!(
        Tensor::from_strings(["a"], [2]),
        Err(TensorError::Length { expected: 2, actual: 1, .. })
    ));
}

#[test]
fn bools_are_zero_or_one() {
    let tensor = Tensor::from_bools(&[true, false], [2]).unwrap();
    assert_eq!(tensor.bytes().unwrap().as_ref(), [1, 0]);
    assert_eq!(tensor.to_bools().unwrap(), [true, false]);
    let wrong = Tensor::new(DType::Bool, [3], Bytes::from_static(&[0, 1, 2]));
    assert_eq!(wrong, Err(TensorError::BoolByte { position: 2, value: 2 }));
    let number = Tensor::scalar(1_u8);
    assert_eq!(number.to_bools(), Err(TensorError::DType { expected: DType::Bool, actual: DType::UInt8 }));
}

#[test]
fn strings_count_as_in_dm_reverb() {
    let tensor = Tensor::from_strings(["x", "yz", ""], [3]).unwrap();
    assert_eq!(tensor.size_bytes(), 3 * 24 + 3);
    assert_eq!(tensor.strings().unwrap(), ["x", "yz", ""]);
    assert_eq!(tensor.bytes(), None);
    assert_eq!(tensor.rows(1..3).unwrap().strings().unwrap(), ["yz", ""]);
}

#[test]
fn a_view_of_misaligned_bytes_is_an_error_not_a_copy() {
    let bytes = Bytes::from(vec![0_u8; 9]);
    let views = [0, 1].map(|start| Tensor::new(DType::Float64, [1], bytes.slice(start..start + 8)).unwrap());
    let misaligned: Vec<_> = views.iter().filter_map(|view| view.as_slice::<f64>().err()).collect();
    assert!(misaligned.contains(&TensorError::Misaligned { dtype: DType::Float64 }));
    assert!(views.iter().all(|view| view.to_vec::<f64>() == Ok(vec![0.0])));
    let empty = Tensor::new(DType::Float64, [0], bytes.slice(1..1)).unwrap();
    assert_eq!(empty.as_slice::<f64>(), Ok([].as_slice()));
}

#[test]
fn rows_and_joins_are_checked() {
    let tensor = Tensor::from_slice(&[1_u8, 2, 3], [3]).unwrap();
    assert_eq!(tensor.rows(1..4), Err(TensorError::Rows { start: 1, end: 4, rows: 3 }));
    #[expect(clippy::reversed_empty_ranges, reason = "this is the mistake to be found")]
    let reversed = tensor.rows(2..1);
    assert_eq!(reversed, Err(TensorError::Rows { start: 2, end: 1, rows: 3 }));
    assert_eq!(Tensor::scalar(1_u8).rows(0..0), Err(TensorError::Scalar));
    assert_eq!(Tensor::concat(&[]), Err(TensorError::Nothing));
    assert_eq!(Tensor::stack(&[]), Err(TensorError::Nothing));
    assert_eq!(Tensor::concat(&[Tensor::scalar(1_u8)]), Err(TensorError::Scalar));
    let signed = Tensor::from_slice(&[1_i8], [1]).unwrap();
    let mixed = Tensor::concat(&[tensor.clone(), signed]);
    assert_eq!(mixed, Err(TensorError::DType { expected: DType::UInt8, actual: DType::Int8 }));
    let wide = tensor.unsqueeze().unwrap();
    assert!(matches!(Tensor::concat(&[tensor.clone(), wide.clone()]), Err(TensorError::Shape { .. })));
    assert!(matches!(Tensor::stack(&[tensor.clone(), wide]), Err(TensorError::Shape { .. })));
    assert!(matches!(tensor.squeeze_leading(), Err(TensorError::Shape { .. })));
    assert_eq!(Tensor::scalar(1_u8).squeeze_leading(), Err(TensorError::Scalar));
    let deep = Tensor::from_slice(&[0_u8], Shape::from_iter([1; 254])).unwrap();
    assert_eq!(deep.unsqueeze(), Err(TensorError::Rank { rank: 255 }));
}

proptest! {
    #[test]
    fn rows_and_concat_are_inverse(tensor in batches(), cut: usize) {
        let rows = tensor.shape().rows().unwrap();
        let cut = u32::try_from(cut % (usize::try_from(rows).unwrap() + 1)).unwrap();
        let parts = [tensor.rows(0..cut).unwrap(), tensor.rows(cut..rows).unwrap()];
        prop_assert_eq!(parts[0].size_bytes() + parts[1].size_bytes(), tensor.size_bytes());
        prop_assert_eq!(&Tensor::concat(&parts).unwrap(), &tensor);
    }

    #[test]
    fn splitting_into_cells_and_stacking_are_inverse(tensor in batches()) {
        let rows = tensor.shape().rows().unwrap();
        let cells: Vec<_> =
            (0..rows).map(|row| tensor.rows(row..row + 1).unwrap().squeeze_leading().unwrap()).collect();
        if rows > 0 {
            prop_assert_eq!(&Tensor::stack(&cells).unwrap(), &tensor);
            prop_assert_eq!(cells[0].unsqueeze().unwrap(), tensor.rows(0..1).unwrap());
        }
    }
}
