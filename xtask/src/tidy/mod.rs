//! The project's rules that neither the compiler nor clippy checks; each message contains the reason.
//!
//! Each rule has a file: a function from the inputs (declared dependencies, source files) to findings.

mod absences;
mod check;
mod cycles;
mod finding;
mod layers;
mod packages;
mod prose;
mod reached;
mod roots;
mod sizes;
mod source;
mod walk;
mod words;

pub(crate) use check::run;
