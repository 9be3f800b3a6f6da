//! The rules of a table, as text and as fields.

use relive_table::{RateLimiterConfig, TableConfig};
use relive_tensor::{Signature, TensorSpec};
use serde::Serialize;

/// No cursor reaches this value, because counters of operations stay below it.
const UNREACHABLE_CURSOR: f64 = 1e15;

/// Returns the bounds of a limiter, if it has any. Bounds that no cursor reaches, such as dm-reverb's 1e300, count as
/// none.
pub(crate) fn bounds(limiter: &RateLimiterConfig) -> (Option<f64>, Option<f64>) {
    let min = Some(limiter.min_diff).filter(|min| *min > -UNREACHABLE_CURSOR);
    let max = Some(limiter.max_diff).filter(|max| *max < UNREACHABLE_CURSOR);
    (min, max)
}

/// Returns the rules that choose items.
pub(crate) fn selectors(config: &TableConfig) -> String {
    let times = match config.max_times_sampled {
        1 => "once".to_owned(),
        limit if limit > 1 => format!("at most {limit} times"),
        _ => "any number of times".to_owned(),
    };
    let shards = match config.shards {
        1 => String::new(),
        shards => format!("; in {shards} shards"),
    };
    format!("sampled by {}, {times}; removed by {}{shards}", config.sampler, config.remover)
}

/// A column of a signature.
#[derive(Serialize)]
pub(crate) struct ColumnFields {
    path: String,
    dtype: String,
    /// -1 for a size that varies; `None` for any shape.
    shape: Option<Vec<i64>>,
}

pub(crate) fn columns(signature: &Signature) -> Vec<ColumnFields> {
    let dims = |dims: &Vec<Option<u32>>| dims.iter().map(|size| size.map_or(-1, i64::from)).collect();
    let column = |(path, spec): (relive_tensor::Path, &TensorSpec)| ColumnFields {
        path: path.to_string(),
        dtype: spec.dtype.to_string(),
        shape: spec.shape.as_ref().map(dims),
    };
    signature.flatten_with_paths().into_iter().map(column).collect()
}

impl ColumnFields {
    /// `observation float[?, 4]`
    pub(crate) fn text(&self) -> String {
        let size = |size: &i64| if *size < 0 { "?".to_owned() } else { size.to_string() };
        let shape = match &self.shape {
            Some(shape) => format!("[{}]", shape.iter().map(size).collect::<Vec<_>>().join(", ")),
            None => " of any shape".to_owned(),
        };
        format!("{} {}{shape}", self.path, self.dtype).trim_start().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_bounds_are_shown_as_absent() {
        assert_eq!(bounds(&RateLimiterConfig::min_size(1).unwrap()), (None, None));
        assert_eq!(bounds(&RateLimiterConfig::queue(3)), (Some(0.0), Some(3.0)));
        let open = RateLimiterConfig { min_diff: f64::NEG_INFINITY, ..RateLimiterConfig::queue(3) };
        assert_eq!(bounds(&open), (None, Some(3.0)));
        let vast = RateLimiterConfig { min_diff: -1e300, max_diff: 1e300, ..open };
        assert_eq!(bounds(&vast), (None, None));
        let shut = RateLimiterConfig { min_diff: 1e300, max_diff: f64::INFINITY, ..open };
        assert_eq!(bounds(&shut), (Some(1e300), None), "a lower bound that keeps every sample waiting");
    }
}
