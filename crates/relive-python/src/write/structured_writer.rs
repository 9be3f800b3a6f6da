//! The structured writer.

use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relive_client::{
    Condition, OperandBuilder, PatternNode, PriorityFn, SourceColumn, StructuredConfig,
    StructuredWriter as RustWriter,
};
use relive_tensor::Nest;

use super::append_error::{fitted, raise_numbered};
use super::trajectory_writer::items_left;
use crate::arrays::array;
use crate::error::{OrRaise, invalid};
use crate::interpreter::fork::Owned;
use crate::interpreter::wait;
use crate::nests::place::at_path;
use crate::nests::structure;

/// Appends flat steps and creates items from patterns.
#[pyclass(frozen, subclass, module = "relive._native", name = "StructuredWriter")]
pub(crate) struct StructuredWriter {
    inner: Owned<RustWriter>,
    /// The timeout for calls that do not set one.
    limit: Duration,
    /// Whether errors name types and shapes as dm-reverb does, instead of as numpy does.
    as_reverb: bool,
}

impl StructuredWriter {
    pub(crate) fn over(writer: RustWriter, limit: Duration, as_reverb: bool) -> StructuredWriter {
        StructuredWriter { inner: Owned::new("writer", writer), limit, as_reverb }
    }

    /// Returns a timeout in milliseconds with dm-reverb's meaning: 0 means no wait, and `None` waits forever unless the
    /// client has a limit.
    fn timeout(&self, timeout_ms: Option<i64>) -> Duration {
        let given = |ms| u64::try_from(ms).map_or(wait::FOREVER, Duration::from_millis);
        timeout_ms.map_or(self.limit, given)
    }

    fn with<R>(&self, py: Python<'_>, act: impl FnOnce(&mut RustWriter) -> PyResult<R>) -> PyResult<R> {
        let mut inner = self.inner.lock(py)?;
        act(inner.as_mut().ok_or_else(|| PyRuntimeError::new_err("the writer is closed"))?)
    }

    /// Appends the leaves of a step, and returns the error if the step does not fit.
    fn append_leaves(
        &self,
        py: Python<'_>,
        flat: &[Option<Bound<'_, PyAny>>],
        partial: bool,
    ) -> PyResult<relive_client::Result<()>> {
        let leaf = |(column, leaf): (usize, &Option<Bound<'_, PyAny>>)| match leaf {
            Some(leaf) => array::to_tensor(leaf)
                .map(Nest::Leaf)
                .or_else(|error| Err(at_path(error, &PyTuple::new(py, [column])?))),
            None => Ok(Nest::None),
        };
        let step = Nest::List(flat.iter().enumerate().map(leaf).collect::<PyResult<_>>()?);
        self.with(py, |writer| {
            let done = if partial { writer.try_append_partial(&step) } else { writer.try_append(&step) };
            match done {
                Ok(true) => return Ok(Ok(())),
                Ok(false) => {}
                Err(error) => return Ok(Err(error)),
            }
            let appended = async {
                if partial { writer.append_partial(&step).await } else { writer.append(&step).await }
            };
            wait::wait_because(py, "append", appended, wait::unconfirmed)
        })
    }
}

#[pymethods]
impl StructuredWriter {
    /// Appends the leaves of a step; missing leaves are `None`.
    fn append(&self, py: Python<'_>, mut flat: Vec<Option<Bound<'_, PyAny>>>, partial: bool) -> PyResult<()> {
        loop {
            let Err(error) = self.append_leaves(py, &flat, partial)? else { return Ok(()) };
            let value_of = |column: usize| flat.get(column).cloned().flatten();
            let number = if self.as_reverb { None } else { fitted(&error, value_of)? };
            let place = number.and_then(|(column, number)| Some((flat.get_mut(column)?, number)));
            let Some((place, number)) = place else {
                return Err(raise_numbered(py, &error, self.as_reverb));
            };
            *place = Some(number);
        }
    }

    #[getter]
    fn step_is_open(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |writer| Ok(writer.step_is_open()))
    }

    #[getter]
    fn pending_items(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |writer| Ok(writer.pending_items()))
    }

    #[pyo3(signature = (block_until_num_items = 0, timeout_ms = None))]
    fn flush(&self, py: Python<'_>, block_until_num_items: i64, timeout_ms: Option<i64>) -> PyResult<()> {
        let items = items_left(block_until_num_items)?;
        let timeout = self.timeout(timeout_ms);
        self.with(py, |writer| {
            wait::now_or_wait(py, "flush", writer.flush_until(items, timeout), wait::unconfirmed)?
                .or_raise(py)
        })
    }

    #[pyo3(signature = (clear_buffers = true, timeout_ms = None))]
    fn end_episode(&self, py: Python<'_>, clear_buffers: bool, timeout_ms: Option<i64>) -> PyResult<()> {
        let timeout = self.timeout(timeout_ms);
        self.with(py, |writer| {
            wait::now_or_wait(
                py,
                "end_episode",
                writer.end_episode(clear_buffers, timeout),
                wait::unconfirmed,
            )?
            .or_raise(py)
        })
    }

    /// Closes the writer; drops unconfirmed items, with a warning.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.end(py)
    }
}

/// Returns the configurations, from dicts of `table`, `nodes`, `priority` and `conditions`.
pub(crate) fn to_configs(configs: &[Bound<'_, PyDict>]) -> PyResult<Vec<StructuredConfig>> {
    let named = |(position, config): (usize, &Bound<'_, PyDict>)| {
        to_config(config).map_err(|error| {
            let text = error.value(config.py()).to_string();
            PyValueError::new_err(format!("Invalid configuration at position {position}: {text}"))
        })
    };
    configs.iter().enumerate().map(named).collect()
}

fn to_config(config: &Bound<'_, PyDict>) -> PyResult<StructuredConfig> {
    let part = |name: &str| {
        config
            .get_item(name)?
            .ok_or_else(|| PyValueError::new_err(format!("the configuration has no {name}")))
    };
    let nodes: Vec<Node> = part("nodes")?.extract()?;
    let nodes = nodes.into_iter().map(|node| to_node(config.py(), node)).collect::<PyResult<Vec<_>>>()?;
    let structure = match config.get_item("structure")? {
        Some(structure) => structure::structure_of(&structure)?,
        None => None,
    };
    let pattern = match structure {
        Some(structure) => structure.unflatten(nodes).map_err(invalid)?,
        None => Nest::List(nodes.into_iter().map(Nest::Leaf).collect()),
    };
    let table: String = part("table")?.extract()?;
    let mut made = StructuredConfig::new(table, pattern).priority(to_priority(&part("priority")?)?);
    for condition in part("conditions")?.try_iter()? {
        made = made.condition(to_condition(&condition?)?);
    }
    Ok(made)
}

/// Source column, start, stop and step of a pattern's node.
type Node = (i64, Option<i32>, Option<i32>, Option<i32>);

fn to_node(py: Python<'_>, (source, start, stop, step): Node) -> PyResult<PatternNode> {
    let source = u32::try_from(source)
        .map_err(|_| PyValueError::new_err(format!("flat_source_index must be >= 0, got {source}")))?;
    let column = SourceColumn::at(source);
    let node = match (start, stop, step) {
        (None, Some(stop), None) => column.step(stop),
        (None, _, Some(_)) => {
            return Err(PyValueError::new_err("a step is only allowed together with a start"));
        }
        (None, None, None) => return Err(PyValueError::new_err("a node needs a start or a stop")),
        (Some(start), stop, step) => {
            let stride = u32::try_from(step.unwrap_or(1)).unwrap_or(0);
            match stop {
                None | Some(0) => column.strided(start.., stride),
                Some(stop) => column.strided(start..stop, stride),
            }
        }
    };
    node.or_raise(py)
}

fn to_priority(priority: &Bound<'_, PyAny>) -> PyResult<PriorityFn> {
    let priority = priority.cast::<PyTuple>()?;
    let kind: String = priority.get_item(0)?.extract()?;
    match kind.as_str() {
        "constant" => Ok(PriorityFn::Constant(priority.get_item(1)?.extract()?)),
        "td_error" => Ok(PriorityFn::TdError {
            max_priority_weight: priority.get_item(1)?.extract()?,
            column: SourceColumn::at(priority.get_item(2)?.extract()?),
        }),
        other => Err(PyValueError::new_err(format!("unknown priority function {other:?}"))),
    }
}

fn to_condition(condition: &Bound<'_, PyAny>) -> PyResult<Condition> {
    let (left, source, comparison, arguments, inverse): (String, Option<u32>, String, Vec<i64>, bool) =
        condition.extract()?;
    let operand = match left.as_str() {
        "step_index" => Condition::step_index(),
        "steps_since_applied" => Condition::steps_since_applied(),
        "buffer_length" => Condition::buffer_length(),
        "is_end_episode" => return end_of_episode(&comparison, &arguments, inverse),
        "data" => Condition::data(SourceColumn::at(source.unwrap_or(0))),
        other => return Err(PyValueError::new_err(format!("a condition cannot refer to {other:?}"))),
    };
    compared(operand, &comparison, &arguments, inverse)
}

fn compared(
    operand: OperandBuilder,
    comparison: &str,
    arguments: &[i64],
    inverse: bool,
) -> PyResult<Condition> {
    Ok(match (comparison, arguments, inverse) {
        ("eq", &[value], false) => operand.eq(value),
        ("eq", &[value], true) => operand.ne(value),
        ("ge", &[value], false) => operand.ge(value),
        ("ge", &[value], true) => operand.lt(value),
        ("mod_eq", &[modulus, remainder], false) => operand.modulo(modulus, remainder),
        ("mod_eq", &[modulus, remainder], true) => operand.not_modulo(modulus, remainder),
        _ => {
            return Err(PyValueError::new_err(format!(
                "unsupported comparison in a condition: {comparison:?} {arguments:?}"
            )));
        }
    })
}

fn end_of_episode(comparison: &str, arguments: &[i64], inverse: bool) -> PyResult<Condition> {
    match (comparison, arguments, inverse) {
        ("eq", &[1], false) => Ok(Condition::is_end_episode()),
        _ => Err(PyValueError::new_err("is_end_episode can only be required to be true (eq 1, not inverse)")),
    }
}
