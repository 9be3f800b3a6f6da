//! Tables: the classes that describe them, and changes and states of tables in use as data for Python.

pub(crate) mod changes;
pub(crate) mod extension;
mod selectors;
pub(crate) mod status;
pub(crate) mod table;
