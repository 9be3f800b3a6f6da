//! Extensions of tables.

use pyo3::prelude::*;
use relive_table::{Extension, InsertOnFirstSample, PriorityDiffusion};

use crate::error::invalid;

/// An extension, which a table runs as part of its operations.
#[pyclass(frozen, module = "relive._native", name = "TableExtension")]
pub(crate) struct TableExtension(Kind);

enum Kind {
    InsertOnFirstSample { target_table: String },
    PriorityDiffusion(PriorityDiffusion),
}

#[pymethods]
impl TableExtension {
    /// Copies an item into another table of the server when it is first sampled.
    #[staticmethod]
    fn insert_on_first_sample(target_table: String) -> TableExtension {
        TableExtension(Kind::InsertOnFirstSample { target_table })
    }

    /// Raises the priorities of the items before and after an inserted or updated one.
    #[staticmethod]
    fn priority_diffusion(decay: f64, before: usize, after: usize) -> PyResult<TableExtension> {
        Ok(TableExtension(Kind::PriorityDiffusion(
            PriorityDiffusion::new(decay, before, after).map_err(invalid)?,
        )))
    }
}

impl TableExtension {
    /// Returns a new instance of the extension for a table.
    pub(crate) fn build(&self) -> Box<dyn Extension> {
        match &self.0 {
            Kind::InsertOnFirstSample { target_table } => {
                Box::new(InsertOnFirstSample::new(target_table.as_str()))
            }
            Kind::PriorityDiffusion(diffusion) => Box::new(diffusion.clone()),
        }
    }
}
