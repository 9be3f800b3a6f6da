//! The report on a sweep: one folder with pictures, a table of all runs, one self-contained page, and a page for each
//! agent.

mod agent_pages;
mod page;
mod pictures;
mod table;
mod write;

pub(super) use write::write;
