//! The priority of an item that a pattern makes.

/// How the priority of an item is found.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PriorityFn {
    /// Always the same.
    Constant(f64),
    /// `w * max|x| + (1 - w) * mean|x|` over the steps `x` of an emitted column, as in R2D2 (Kapturowski et al. 2019,
    /// section 2.3), where `x` are temporal-difference errors.
    TdError {
        /// The weight `w` of the largest error, from 0 to 1.
        max_priority_weight: f64,
        /// Number of the source column in the flattened step; its cells are single f32, f64, i32 or i64 values, and the
        /// pattern must emit it.
        source: u32,
    },
}

impl Default for PriorityFn {
    /// 1 for every item.
    fn default() -> PriorityFn {
        PriorityFn::Constant(1.0)
    }
}

/// `w * max|x| + (1 - w) * mean|x|`; none without values.
pub(crate) fn td_error(max_priority_weight: f64, values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut max) = (0_u32, 0.0_f64, 0.0_f64);
    for value in values {
        count += 1;
        sum += value.abs();
        max = max.max(value.abs());
    }
    (count > 0).then(|| max_priority_weight * max + (1.0 - max_priority_weight) * sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn td_error_mixes_maximum_and_mean() {
        let found = td_error(0.9, [1.0, -3.0].into_iter()).unwrap();
        assert!((found - 2.9).abs() < 1e-12, "{found}");
        assert_eq!(td_error(0.5, std::iter::empty()), None);
    }
}
