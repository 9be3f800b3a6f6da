//! The result type of the programs.

/// The result of a measuring program; any error ends the program.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
