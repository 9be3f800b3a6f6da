//! The mapping between the element types of tensors and those of safetensors files.

use relive_tensor::DType;
use safetensors::tensor::Dtype;

/// The types that both tensors and files support.
const BOTH: [(DType, Dtype); 13] = [
    (DType::Float32, Dtype::F32),
    (DType::Float64, Dtype::F64),
    (DType::Float16, Dtype::F16),
    (DType::BFloat16, Dtype::BF16),
    (DType::Int8, Dtype::I8),
    (DType::Int16, Dtype::I16),
    (DType::Int32, Dtype::I32),
    (DType::Int64, Dtype::I64),
    (DType::UInt8, Dtype::U8),
    (DType::UInt16, Dtype::U16),
    (DType::UInt32, Dtype::U32),
    (DType::UInt64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
];

/// Returns the name that files use for a type, or `None` if files do not support it.
pub(super) fn to_file(dtype: DType) -> Option<Dtype> {
    BOTH.iter().find(|(own, _)| *own == dtype).map(|(_, of_file)| *of_file)
}

/// Returns the type for a name in a file, or `None` if tensors do not support it.
pub(super) fn from_file(dtype: Dtype) -> Option<DType> {
    BOTH.iter().find(|(_, of_file)| *of_file == dtype).map(|(own, _)| *own)
}
