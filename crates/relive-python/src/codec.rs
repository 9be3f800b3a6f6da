//! Codecs by their names.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_tensor::Codec;

/// The codec of that name; `None` for "auto", which lets the writer choose.
pub(crate) fn chosen(name: &str) -> PyResult<Option<Codec>> {
    if name == "auto" {
        return Ok(None);
    }
    Codec::from_name(name).map(Some).ok_or_else(|| {
        let names: Vec<String> = Codec::ALL.iter().map(|codec| format!("'{codec}'")).collect();
        PyValueError::new_err(format!("codec must be 'auto' or one of {}, got '{name}'", names.join(", ")))
    })
}
