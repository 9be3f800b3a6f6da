//! The check of trajectories that several targets share.

use relive_tensor::Trajectory;

/// Trajectories with more decoded bytes than this are not decoded: an item may refer to the same rows many times.
const MAX_DECODED_BYTES: u64 = 1 << 20;

/// Checks that every column decodes to its declared shape and type. Only columns of bools may fail this late.
pub fn check(trajectory: &Trajectory) {
    if decoded_size_bytes(trajectory) > MAX_DECODED_BYTES {
        return;
    }
    let all = trajectory.decode();
    for (index, column) in trajectory.columns().enumerate() {
        match trajectory.decode_column(index) {
            Ok(tensor) => {
                assert_eq!((tensor.dtype(), tensor.shape()), (column.dtype(), &column.shape()));
                if let Ok(all) = &all {
                    assert_eq!(all.get(index), Some(&tensor));
                }
            }
            Err(error) => {
                assert_eq!(column.dtype(), relive_tensor::DType::Bool, "{error}");
                assert!(all.is_err());
            }
        }
    }
    assert_eq!(
        all.map(|tensors| tensors.len()).unwrap_or(trajectory.num_columns()),
        trajectory.num_columns()
    );
}

/// Returns the size of all columns when decoded. Each string element counts 32 bytes, about its overhead in addition to
/// its characters.
fn decoded_size_bytes(trajectory: &Trajectory) -> u64 {
    let elements = |column: relive_tensor::Column<'_>| {
        let width = column.dtype().size_bytes().map_or(Some(32), |size| u64::try_from(size).ok());
        column.shape().num_elements().zip(width).and_then(|(count, width)| count.checked_mul(width))
    };
    trajectory.columns().try_fold(0_u64, |sum, column| sum.checked_add(elements(column)?)).unwrap_or(u64::MAX)
}
