//! The test suite that every environment must pass.
//!
//! ```
//! relive_env::conformance::check(relive_env::classic::CartPole::new)?;
//! # Ok::<(), relive_env::conformance::Violation>(())
//! ```

mod observer;
mod rules;
mod suite;
mod violation;

pub use suite::check;
pub use violation::Violation;
