//! The numbers that conditions and priorities of patterns use.

use std::collections::{BTreeMap, VecDeque};

use relive_connection::{Error, Result};
use relive_tensor::{DType, Tensor};

use super::condition::Operand;
use super::config::{PriorityFn, StructuredConfig};
use super::flat_step::FlatStep;

/// Numbers of the newest step, and of the earlier steps that priorities need.
#[derive(Debug, Default)]
pub(crate) struct RecentValues {
    /// Whether a value that a condition cannot use is an error, instead of a condition that does not hold.
    strict: bool,
    /// Whether such a value has been logged.
    has_told: bool,
    /// Integers of the newest step, for the columns that conditions use.
    integers: BTreeMap<u32, Option<i64>>,
    /// TD errors by position in the history, for the columns that priorities use.
    errors: BTreeMap<u32, Errors>,
}

#[derive(Debug, Default)]
struct Errors {
    max_age: usize,
    values: VecDeque<(u64, f64)>,
}

impl RecentValues {
    pub(crate) fn new(configs: &[StructuredConfig], strict: bool) -> RecentValues {
        let mut this = RecentValues { strict, ..RecentValues::default() };
        for config in configs {
            for condition in config.conditions() {
                if let Operand::Data { source } = condition.left {
                    this.integers.insert(source, None);
                }
            }
            if let PriorityFn::TdError { column, .. } = config.priority_fn() {
                let errors = this.errors.entry(column.source()).or_default();
                errors.max_age = errors.max_age.max(usize::try_from(config.max_age()).unwrap_or(usize::MAX));
            }
        }
        this
    }

    /// Checks that priorities and, if they are strict, conditions can be computed from this step.
    pub(crate) fn check(&mut self, step: &FlatStep<'_>) -> Result<()> {
        if let Some(fault) = self.condition_fault(step) {
            if self.strict {
                return Err(Error::invalid(fault));
            }
            if !std::mem::replace(&mut self.has_told, true) {
                tracing::warn!("{fault}; without such a value, the condition does not hold");
            }
        }
        self.errors
            .keys()
            .try_for_each(|source| step.leaf(*source).map_or(Ok(()), |value| check(*source, value)))
    }

    fn condition_fault(&self, step: &FlatStep<'_>) -> Option<String> {
        if self.has_told {
            return None;
        }
        let unusable = |source: &u32| step.leaf(*source).filter(|value| integer(value).is_none());
        let (source, value) = self.integers.keys().find_map(|source| Some((source, unusable(source)?)))?;
        let (dtype, shape) = (value.dtype(), value.shape());
        Some(format!(
            "column {source} is {dtype} {shape}; a condition needs one integer below 2**63 or one bool per step"
        ))
    }

    /// Records the needed values of a step or a partial step.
    pub(crate) fn record(&mut self, step: &FlatStep<'_>, position: u64, starts_step: bool) {
        for (source, newest) in &mut self.integers {
            match step.leaf(*source) {
                Some(value) => *newest = integer(value),
                None if starts_step => *newest = None,
                None => {}
            }
        }
        for (source, errors) in &mut self.errors {
            if let Some(value) = step.leaf(*source).and_then(number) {
                errors.values.push_back((position, value));
                if errors.values.len() > errors.max_age {
                    errors.values.pop_front();
                }
            }
        }
    }

    /// Returns the newest integer or bool of a column.
    pub(crate) fn integer(&self, source: u32) -> Option<i64> {
        self.integers.get(&source).copied().flatten()
    }

    /// Returns the value of a column at the given position of the history.
    pub(crate) fn at(&self, source: u32, position: u64) -> Option<f64> {
        let values = &self.errors.get(&source)?.values;
        values.iter().rev().find(|(at, _)| *at == position).map(|(_, value)| *value)
    }

    /// Forgets the history.
    pub(crate) fn clear(&mut self) {
        self.errors.values_mut().for_each(|errors| errors.values.clear());
    }
}

/// Checks that a priority can be computed from values like this one of column `source`. The value need not be finite,
/// because there may be no item that uses it.
fn check(source: u32, value: &Tensor) -> Result<()> {
    if number(value).is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "column {source} is {} {}; a priority needs one f32, f64, i32 or i64 value per step",
        value.dtype(),
        value.shape()
    )))
}

/// Returns the value of a tensor that consists of one integer or bool.
fn integer(value: &Tensor) -> Option<i64> {
    match value.dtype() {
        DType::Bool => one(&value.to_bools().ok()?).map(i64::from),
        DType::Int8 => one(&value.to_vec::<i8>().ok()?).map(i64::from),
        DType::Int16 => one(&value.to_vec::<i16>().ok()?).map(i64::from),
        DType::Int32 => one(&value.to_vec::<i32>().ok()?).map(i64::from),
        DType::Int64 => one(&value.to_vec::<i64>().ok()?),
        DType::UInt8 => one(&value.to_vec::<u8>().ok()?).map(i64::from),
        DType::UInt16 => one(&value.to_vec::<u16>().ok()?).map(i64::from),
        DType::UInt32 => one(&value.to_vec::<u32>().ok()?).map(i64::from),
        DType::UInt64 => i64::try_from(one(&value.to_vec::<u64>().ok()?)?).ok(),
        _ => None,
    }
}

/// Returns the value of a scalar from which a priority can be computed.
fn number(value: &Tensor) -> Option<f64> {
    if value.shape().rank() > 0 {
        return None;
    }
    match value.dtype() {
        DType::Float32 => one(&value.to_vec::<f32>().ok()?).map(f64::from),
        DType::Float64 => one(&value.to_vec::<f64>().ok()?),
        DType::Int32 => one(&value.to_vec::<i32>().ok()?).map(f64::from),
        #[expect(clippy::cast_precision_loss, reason = "a priority is a f64; that is its precision")]
        DType::Int64 => one(&value.to_vec::<i64>().ok()?).map(|value| value as f64),
        _ => None,
    }
}

fn one<T: Copy>(values: &[T]) -> Option<T> {
    match values {
        [value] => Some(*value),
        _ => None,
    }
}
