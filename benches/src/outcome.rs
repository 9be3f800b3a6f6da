//! The result type of the programs.

/// The result of a program that measures; any error ends the program.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
