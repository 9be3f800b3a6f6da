//! The rules of the house that neither the compiler nor clippy checks, each with its reason in its message.
//!
//! One file per rule: a function from what was read (declared dependencies, source files) to findings.

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
