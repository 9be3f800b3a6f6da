//! Where the environments of a run come from.

use std::fmt;
use std::sync::Arc;

use relive_env::{BatchEnvironment, Environment, EnvironmentSpec, Vectorized};

use crate::Result;

/// Makes the environments of a run. Cheap to clone.
#[derive(Clone)]
pub struct MakeEnvironment(Arc<dyn MakeRows>);

/// Makes what makes environments of a name.
pub type MakeNamed<'a> = dyn Fn(&str) -> Result<MakeEnvironment> + 'a;

/// Environments that are wanted, each in its row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The number of the first among those of all workers.
    pub first: usize,
    /// A seed for each.
    pub seeds: &'a [u64],
    /// How often the run has gone on from a checkpoint. Environments that cannot be restored then begin other
    /// episodes than they did before.
    pub resumed: u64,
    /// Whether they must be just so many. Otherwise they may be more, where some are had together only.
    pub is_exact: bool,
}

/// Makes environments that may be had together only.
pub trait MakeRows: Send + Sync {
    /// What each of them takes and gives.
    ///
    /// # Errors
    /// None can be made.
    fn spec(&self, seed: u64) -> Result<EnvironmentSpec>;

    /// Whether they can [save](BatchEnvironment::save) their states.
    ///
    /// # Errors
    /// As [`spec`](Self::spec).
    fn are_saved(&self, seed: u64) -> Result<bool>;

    /// The environments of these rows.
    ///
    /// # Errors
    /// They cannot be made.
    fn rows(&self, rows: Rows<'_>) -> Result<Box<dyn BatchEnvironment>>;
}

impl MakeEnvironment {
    /// Makes each environment on its own, with a seed of its own.
    #[must_use]
    pub fn new(
        make: impl Fn(u64) -> Result<Box<dyn Environment>> + Send + Sync + 'static,
    ) -> MakeEnvironment {
        MakeEnvironment(Arc::new(Each(make)))
    }

    /// Makes all environments of a worker at once.
    #[must_use]
    pub fn together(make: impl MakeRows + 'static) -> MakeEnvironment {
        MakeEnvironment(Arc::new(make))
    }
}

impl std::ops::Deref for MakeEnvironment {
    type Target = dyn MakeRows;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl fmt::Debug for MakeEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeEnvironment")
    }
}

/// A function from seeds to environments.
struct Each<F>(F);

impl<F: Fn(u64) -> Result<Box<dyn Environment>> + Send + Sync> MakeRows for Each<F> {
    fn spec(&self, seed: u64) -> Result<EnvironmentSpec> {
        Ok((self.0)(seed)?.spec().clone())
    }

    fn are_saved(&self, seed: u64) -> Result<bool> {
        Ok((self.0)(seed)?.save().is_some())
    }

    fn rows(&self, rows: Rows<'_>) -> Result<Box<dyn BatchEnvironment>> {
        let made = rows.seeds.iter().map(|seed| (self.0)(*seed));
        Ok(Box::new(Vectorized::from_environments(made.collect::<Result<_>>()?)?))
    }
}
