use burn_tensor::{Device, Int, Shape, Tensor, TensorData};

/// Returns the device of the tape's tensors.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

/// Returns a tensor without a gradient.
///
/// # Panics
/// If the shape does not have this many numbers.
pub fn constant<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, Shape::from(shape)), &device())
}

/// Returns a tensor with a gradient, for example actions, with respect to which values are differentiated.
///
/// # Panics
/// If the shape does not have this many numbers.
pub fn variable<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    constant(values, shape).require_grad()
}

/// Returns integer indices: actions for `gather`, rows for `select`.
///
/// # Panics
/// If an index exceeds `i32::MAX`.
pub fn indices(values: &[usize]) -> Tensor<1, Int> {
    let narrow = |index: &usize| i32::try_from(*index).expect("indices below 2^31");
    let values: Vec<i32> = values.iter().map(narrow).collect();
    let len = values.len();
    Tensor::from_data(TensorData::new(values, Shape::from([len])), &device())
}

/// Returns the numbers of a tensor, row-major.
///
/// # Panics
/// If the elements are not f32, as in all tensors of this crate.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("tensors of the tape consist of f32")
}
