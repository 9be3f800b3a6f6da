//! The totals that bsuite's environments keep.

use std::fmt;

use crate::environment::Environment;
use crate::task::Native;

/// Sums over all episodes so far, from which bsuite scores agents.
pub trait Totals {
    /// Returns the names, as in bsuite's log files, and values of all totals.
    fn totals(&self) -> Vec<(&'static str, f64)>;
}

/// An environment of bsuite.
pub trait BsuiteEnvironment: Environment + Totals {}

impl<E: Environment + Totals + ?Sized> BsuiteEnvironment for E {}

impl fmt::Debug for dyn BsuiteEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BsuiteEnvironment").field(self.spec()).field(&self.totals()).finish()
    }
}

impl<T: Totals> Totals for Native<T> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        self.task().totals()
    }
}

impl<E: Totals + ?Sized> Totals for Box<E> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        (**self).totals()
    }
}
