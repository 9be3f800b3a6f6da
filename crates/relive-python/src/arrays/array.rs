//! Tensors and numpy arrays. Only this module, [`super::buffer`], [`crate::read::out_arrays`], [`super::numeric_array`]
//! and `gpu::batch` touch numpy's memory.
#![expect(unsafe_code, reason = "numpy's data is reached by pointer; each block says why it is sound")]

use bytes::Bytes;
use numpy::npyffi::{self, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString};
use relive_tensor::{DType, Rows, Shape, Tensor};

use super::buffer;
use super::conversion::{as_array, expect_unmasked};
use super::dtypes::{dtype_of, kind_of, numpy, unsupported};
use crate::arguments::real;

/// A leaf of a step: a numpy array or scalar, a Python number or string, or anything that numpy converts to an array.
///
/// As in numpy, Python integers become `int64`, and floats become `float64`.
pub(crate) enum Value<'py> {
    /// Row-major and little endian, read in place.
    Array { array: Bound<'py, PyUntypedArray>, dtype: DType, shape: Shape },
    /// A numpy scalar.
    Scalar { dtype: DType, bytes: [u8; MAX_SCALAR_BYTES] },
    /// Anything else, as a copy.
    Tensor(Tensor),
}

/// The size of the largest numpy scalar that can be stored, a `complex128`.
const MAX_SCALAR_BYTES: usize = 16;

/// The number of the first type that is not numpy's own (`NPY_USERDEF`).
const FIRST_ADDED_TYPE: i32 = 256;

impl<'py> Value<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            expect_unmasked(array)?;
            return Value::of_array(array);
        }
        if let Some(scalar) = numpy_scalar(object)? {
            return Ok(scalar);
        }
        if let Some(scalar) = python_scalar(object)? {
            return Ok(Value::Tensor(scalar));
        }
        let array = as_array(object)?;
        if kind_of(&array.dtype()) == b'O' && array.ndim() == 0 {
            // TensorFlow returns its scalar text as bytes.
            if let Some(scalar) = python_scalar(&array.call_method0(intern!(object.py(), "item"))?)? {
                return Ok(Value::Tensor(scalar));
            }
            let message = format!(
                "a {} is not a tensor: incompatible function arguments; give numbers, strings, or something \
                 that numpy can turn into an array",
                type_name(object)
            );
            return Err(PyTypeError::new_err(message));
        }
        Value::of_array(&array)
    }

    fn of_array(array: &Bound<'py, PyUntypedArray>) -> PyResult<Value<'py>> {
        let descr = array.dtype();
        let Some(dtype) = dtype_of(&descr)? else { return Err(unsupported(&descr)) };
        if dtype == DType::String {
            return strings_to_tensor(array).map(Value::Tensor);
        }
        let array = canonical(array, &descr)?;
        let shape = shape_of(&array)?;
        let value = Value::Array { array, dtype, shape };
        if dtype == DType::Bool {
            // The bytes are validated, and must not change afterwards.
            let copy = Bytes::copy_from_slice(value.bytes());
            return tensor(Tensor::new(dtype, value.dims(), copy)).map(Value::Tensor);
        }
        Ok(value)
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Value::Array { dtype, .. } | Value::Scalar { dtype, .. } => *dtype,
            Value::Tensor(tensor) => tensor.dtype(),
        }
    }

    pub(crate) fn dims(&self) -> &[u32] {
        match self {
            Value::Array { shape, .. } => shape.dims(),
            Value::Scalar { .. } => &[],
            Value::Tensor(tensor) => tensor.shape().dims(),
        }
    }

    /// Returns the elements in place; none for strings.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Array { array, .. } if array.len() > 0 => {
                let len = array.len() * array.dtype().itemsize();
                // SAFETY: the array was C-contiguous, so its elements are the `len` bytes from its data pointer on.
                // Pointer and length are read together, so they match even if the array was resized. The elements live
                // as long as the array, which `self` keeps alive, and no Python code runs while they are borrowed. If
                // another thread writes to them without the interpreter, the values may be torn, as in a copy that
                // numpy makes.
                unsafe {
                    let object = array.as_array_ptr();
                    std::slice::from_raw_parts((*object).fields.data.cast::<u8>(), len)
                }
            }
            Value::Array { .. } => &[],
            Value::Scalar { dtype, bytes } => {
                bytes.get(..dtype.size_bytes().unwrap_or(0)).unwrap_or_default()
            }
            Value::Tensor(tensor) => tensor.bytes().map_or(&[], |bytes| bytes),
        }
    }

    /// Returns the value of one step.
    ///
    /// # Errors
    /// `ValueError` if the array has changed its size, because reading other leaves of the step may have run code.
    pub(crate) fn step(&self) -> PyResult<Rows<'_>> {
        match self {
            Value::Tensor(tensor) => Ok(Rows::step(tensor)),
            Value::Array { dtype, .. } | Value::Scalar { dtype, .. } => self.rows(*dtype, self.dims(), 1),
        }
    }

    /// Returns the values of several steps, whose number is the leading dimension, or `None` for scalars.
    ///
    /// # Errors
    /// Same as [`step`](Self::step).
    pub(crate) fn steps(&self) -> PyResult<Option<Rows<'_>>> {
        match self {
            Value::Tensor(tensor) => Ok(Rows::steps(tensor)),
            Value::Array { dtype, .. } | Value::Scalar { dtype, .. } => {
                let Some((rows, cell)) = self.dims().split_first() else { return Ok(None) };
                self.rows(*dtype, cell, *rows).map(Some)
            }
        }
    }

    fn rows<'a>(&'a self, dtype: DType, cell: &'a [u32], rows: u32) -> PyResult<Rows<'a>> {
        let changed = |_| PyValueError::new_err("the step was changed while it was read");
        Rows::of_bytes(dtype, cell, rows, self.bytes()).map_err(changed)
    }
}

/// Returns a numpy scalar of a fixed size, or `None` for anything else.
fn numpy_scalar<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Value<'py>>> {
    let py = object.py();
    // SAFETY: both calls hold the interpreter and pass a live object, which is a numpy scalar if its type says so. The
    // returned description is a new reference, or null with an exception set.
    let descr = unsafe {
        let generic = npyffi::get_type_object(py, npyffi::NpyTypes::PyGenericArrType_Type);
        if pyo3::ffi::PyObject_TypeCheck(object.as_ptr(), generic) == 0 {
            return Ok(None);
        }
        let descr = PY_ARRAY_API.PyArray_DescrFromScalar(py, object.as_ptr());
        Bound::from_owned_ptr_or_err(py, descr.cast())?
    };
    let descr = descr.cast_into::<PyArrayDescr>()?;
    // For types that other packages add, numpy returns a pointer to the value.
    let is_own = descr.num() < FIRST_ADDED_TYPE && descr.itemsize() <= MAX_SCALAR_BYTES;
    let dtype = dtype_of(&descr)?.filter(|dtype| dtype.size_bytes().is_some() && is_own);
    let Some(dtype) = dtype else { return Ok(None) };
    let mut bytes = [0; MAX_SCALAR_BYTES];
    // SAFETY: the scalar has one of numpy's own numeric types, and the buffer has room for the bytes that are written.
    unsafe { PY_ARRAY_API.PyArray_ScalarAsCtype(py, object.as_ptr(), bytes.as_mut_ptr().cast()) };
    Ok(Some(Value::Scalar { dtype, bytes }))
}

/// Returns a leaf of a step as a tensor; copies the data once.
pub(crate) fn to_tensor(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let value = match Value::of(object)? {
        Value::Tensor(tensor) => return Ok(tensor),
        value => value,
    };
    let (dtype, shape) = match &value {
        Value::Array { dtype, shape, .. } => (*dtype, shape.clone()),
        Value::Scalar { dtype, .. } => (*dtype, Shape::scalar()),
        Value::Tensor(tensor) => (tensor.dtype(), tensor.shape().clone()),
    };
    tensor(Tensor::new(dtype, shape, Bytes::copy_from_slice(value.bytes())))
}

fn python_scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if let Ok(value) = object.cast::<PyFloat>() {
        // Accepts only Python's own float, because numpy's float64 is a subclass of it.
        return Ok(Some(Tensor::scalar(value.value())));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return tensor(Tensor::from_bools(&[value.is_true()], Shape::scalar())).map(Some);
    }
    if let Ok(value) = object.cast_exact::<PyInt>() {
        return value.extract::<i64>().map(Tensor::scalar).map(Some).or_else(|_| {
            match value.extract::<u64>() {
                Ok(value) => Ok(Some(Tensor::scalar(value))),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "the integer {value} has more than 64 bits: incompatible function arguments"
                ))),
            }
        });
    }
    let text = if let Ok(text) = object.cast::<PyString>() {
        Bytes::copy_from_slice(text.to_cow()?.as_bytes())
    } else if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        Bytes::copy_from_slice(bytes.as_bytes())
    } else {
        return Ok(None);
    };
    tensor(Tensor::from_strings([text], Shape::scalar())).map(Some)
}

/// Returns the array itself if it is row-major and little endian; otherwise, returns a copy with this layout.
pub(crate) fn canonical<'py>(
    array: &Bound<'py, PyUntypedArray>,
    descr: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    let native = descr.byteorder() != b'>';
    if native && array.is_c_contiguous() {
        return Ok(array.clone());
    }
    let dtype = if native { descr.clone().into_any() } else { descr.call_method1("newbyteorder", ("<",))? };
    // `ascontiguousarray` would make a scalar one-dimensional.
    let kwargs = [("dtype", dtype), ("order", PyString::new(py, "C").into_any())];
    let copy = numpy(py)?.call_method(
        intern!(py, "array"),
        (array,),
        Some(&pyo3::types::IntoPyDict::into_py_dict(kwargs, py)?),
    )?;
    Ok(copy.cast_into::<PyUntypedArray>()?)
}

fn strings_to_tensor(array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let shape = shape_of(array)?;
    let flat = array.call_method0(intern!(array.py(), "ravel"))?.call_method0("tolist")?;
    let mut values = Vec::with_capacity(array.len());
    for value in flat.try_iter()? {
        values.push(string_bytes(&value?)?);
    }
    tensor(Tensor::from_strings(values, shape))
}

fn string_bytes(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Bytes::from(bytes.to_vec()));
    }
    Err(PyTypeError::new_err(format!(
        "an array of objects may hold strings and bytes only, but one is a {}: incompatible function arguments",
        type_name(value)
    )))
}

/// Copies the rows of a decoded tensor to a new numpy array.
pub(crate) fn from_tensor<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let dims: Vec<usize> = tensor.shape().dims().iter().map(|&dim| dim as usize).collect();
    match tensor.bytes() {
        Some(bytes) => {
            let mut block = buffer::zeroed(bytes.len())?;
            block.bytes_mut().copy_from_slice(bytes);
            buffer::into_array(py, block, tensor.dtype(), &dims)
        }
        None => strings_to_array(py, tensor.strings().unwrap_or_default(), &dims),
    }
}

/// Returns an object array of `bytes`.
pub(crate) fn strings_to_array<'py>(
    py: Python<'py>,
    values: &[Bytes],
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = numpy(py)?.call_method1(intern!(py, "empty"), (values.len(), "O"))?;
    for (index, value) in values.iter().enumerate() {
        array.set_item(index, PyBytes::new(py, value))?;
    }
    array.call_method1(intern!(py, "reshape"), (dims.to_vec(),))
}

fn shape_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Shape> {
    if array.ndim() > MAX_RANK {
        let text = format!(
            "an array of {} dimensions could not be read back: numpy supports 64 dimensions, and batches need two of them",
            array.ndim()
        );
        return Err(PyValueError::new_err(text));
    }
    let dims: Result<Vec<u32>, _> = array.shape().iter().map(|&dim| u32::try_from(dim)).collect();
    let dims = dims.map_err(|_| PyTypeError::new_err(format!("shape {:?} is too large", array.shape())))?;
    Ok(Shape::from(dims.as_slice()))
}

/// The maximum number of dimensions of a step's value.
const MAX_RANK: usize = 62;

fn tensor(made: Result<Tensor, relive_tensor::TensorError>) -> PyResult<Tensor> {
    made.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "value".to_owned(), |name| name.to_string())
}

/// Returns the elements of a plain array that already has exactly this type.
fn ready_elements<T: relive_tensor::Element>(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    let Ok(array) = object.cast::<PyUntypedArray>() else { return Ok(None) };
    expect_unmasked(array)?;
    let descr = array.dtype();
    let is_ready =
        array.is_c_contiguous() && descr.byteorder() != b'>' && dtype_of(&descr)? == Some(T::DTYPE);
    if !is_ready || array.len() == 0 {
        return Ok(is_ready.then(Vec::new));
    }
    // SAFETY: the array is C-contiguous and its `T`s are in this machine's byte order, so `len` of them follow its data
    // pointer, possibly unaligned. They are copied as bytes while the GIL is held and `array` is alive.
    let bytes = unsafe {
        let object = array.as_array_ptr();
        std::slice::from_raw_parts((*object).fields.data.cast::<u8>(), array.len() * size_of::<T>())
    };
    Ok(Some(bytemuck::pod_collect_to_vec(bytes)))
}

/// Converts a sequence of numbers to floats.
pub(crate) fn floats(object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    if let Some(ready) = ready_elements(object)? {
        return Ok(ready);
    }
    let py = object.py();
    let given = as_array(object)?;
    match kind_of(&given.dtype()) {
        // numpy would convert `None` to NaN, text to the number that it spells, dates and durations to their numbers of
        // units, and complex numbers to their real parts.
        b'O' => {
            let all = given.call_method0(intern!(py, "ravel"))?.call_method0(intern!(py, "tolist"))?;
            return all.try_iter()?.map(|number| real("a number", &number?)).collect();
        }
        b'S' | b'U' | b'M' | b'm' | b'c' => {
            return Err(PyTypeError::new_err(format!("numbers are required, got {object}")));
        }
        _ => {}
    }
    let array = numpy(py)?.call_method1(intern!(py, "asarray"), (given, "float64"))?;
    elements(array.call_method0(intern!(object.py(), "ravel"))?.cast::<PyUntypedArray>()?)
}

/// Converts the priorities of `count` items: a sequence, or one number for all of them.
pub(crate) fn priorities(object: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<f64>> {
    let given = floats(object)?;
    let is_single = given.len() == 1 && as_array(object)?.ndim() == 0;
    Ok(if is_single { given.repeat(count) } else { given })
}

/// Converts a sequence of integers, which the error calls by the given name. Fractions and bools are refused, instead of
/// being rounded.
pub(crate) fn integers(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if let Some(ready) = ready_elements(object)? {
        return Ok(ready);
    }
    let py = object.py();
    let array = as_array(object)?;
    if array.len() > 0 && !matches!(kind_of(&array.dtype()), b'i' | b'u') {
        let text = format!("{name} are {}, but they must be whole numbers", object.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    let is_unsigned = kind_of(&array.dtype()) == b'u';
    let whole = array.call_method1(intern!(py, "astype"), (if is_unsigned { "uint64" } else { "int64" },))?;
    let flat = whole.call_method0(intern!(py, "ravel"))?.cast_into::<PyUntypedArray>()?;
    if !is_unsigned {
        return elements(&flat);
    }
    let fitting = |number: u64| {
        i64::try_from(number)
            .map_err(|_| PyValueError::new_err(format!("{name} have {number}, but they must be below 2**63")))
    };
    elements(&flat)?.into_iter().map(fitting).collect()
}

/// Converts keys: an array of integers, a sequence of them, or a single one.
pub(crate) fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Some(ready) = ready_elements(object)? {
        return Ok(ready);
    }
    if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        return one_key(object).map(|key| vec![key]);
    }
    let py = object.py();
    let array = as_array(object)?.call_method0(intern!(py, "ravel"))?;
    let array = array.cast::<PyUntypedArray>()?;
    if array.len() == 0 {
        return Ok(Vec::new());
    }
    if kind_of(&array.dtype()) == b'u' {
        return elements(array.call_method1(intern!(py, "astype"), ("uint64",))?.cast::<PyUntypedArray>()?);
    }
    // If a list contains keys both below and above 2**63, numpy converts them to floats, which changes their values.
    let whole = if object.cast::<PyUntypedArray>().is_ok() || object.try_iter().is_err() {
        array.call_method0(intern!(py, "tolist"))?
    } else {
        object.clone()
    };
    whole.try_iter()?.map(|key| key.and_then(|key| one_key(&key))).collect()
}

fn one_key(key: &Bound<'_, PyAny>) -> PyResult<u64> {
    key.extract::<u64>()
        .map_err(|_| PyTypeError::new_err(format!("a key must be an integer from 0 to 2**64 - 1, got {key}")))
}

fn elements<T: relive_tensor::Element>(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<T>> {
    to_tensor(array.as_any())?.to_vec().map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// Returns keys as an array of `uint64`.
pub(crate) fn from_keys<'py>(py: Python<'py>, keys: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    from_elements(py, keys)
}

/// Returns booleans as a one-dimensional array.
pub(crate) fn from_bools<'py>(py: Python<'py>, values: &[bool]) -> PyResult<Bound<'py, PyAny>> {
    let mut block = buffer::zeroed(values.len())?;
    block.bytes_mut().iter_mut().zip(values).for_each(|(place, value)| *place = u8::from(*value));
    buffer::into_array(py, block, DType::Bool, &[values.len()])
}

/// Returns numbers as a one-dimensional array.
pub(crate) fn from_elements<'py, T: relive_tensor::Element>(
    py: Python<'py>,
    values: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let mut block = buffer::zeroed(bytes.len())?;
    block.bytes_mut().copy_from_slice(bytes);
    buffer::into_array(py, block, T::DTYPE, &[values.len()])
}
