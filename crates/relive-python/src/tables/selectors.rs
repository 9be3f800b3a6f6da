//! Selectors in Python: `(kind, *arguments)`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relive_table::SelectorKind;

/// Returns the selector of `(kind, *arguments)`.
pub(super) fn selector(spec: &Bound<'_, PyTuple>) -> PyResult<SelectorKind> {
    let kind: String = spec.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "fifo" => SelectorKind::Fifo,
        "lifo" => SelectorKind::Lifo,
        "uniform" => SelectorKind::Uniform,
        "without_replacement" => SelectorKind::WithoutReplacement,
        "min_heap" => SelectorKind::MinHeap,
        "max_heap" => SelectorKind::MaxHeap,
        "prioritized" => SelectorKind::Prioritized { exponent: spec.get_item(1)?.extract()? },
        other => return Err(PyTypeError::new_err(format!("there is no selector {other:?}"))),
    })
}

/// Returns a selector as `(kind, *arguments)`.
pub(super) fn selector_tuple<'py>(py: Python<'py>, kind: SelectorKind) -> PyResult<Bound<'py, PyTuple>> {
    let name = match kind {
        SelectorKind::Fifo => "fifo",
        SelectorKind::Lifo => "lifo",
        SelectorKind::Uniform => "uniform",
        SelectorKind::WithoutReplacement => "without_replacement",
        SelectorKind::MinHeap => "min_heap",
        SelectorKind::MaxHeap => "max_heap",
        SelectorKind::Prioritized { exponent } => return ("prioritized", exponent).into_pyobject(py),
    };
    (name,).into_pyobject(py)
}
