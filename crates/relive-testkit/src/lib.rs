//! Reference models, conformance suites and other tools for testing Relive. For development only: all of these tools
//! panic when an expectation is not met.

pub mod data;
pub mod hosts;
pub mod logs;
pub mod selector;
pub mod table;
