//! Tables: the classes that describe them, and changes to tables in use and their states, as data for Python.

pub(crate) mod changes;
pub(crate) mod extension;
mod selectors;
pub(crate) mod status;
pub(crate) mod table;
