//! The report of a sweep: one folder with pictures, a table of all runs, and one page that holds everything.

mod page;
mod table;
mod write;

pub(super) use write::write;
