//! Parameters on their way from a learner to actors.

use std::sync::Arc;

use parking_lot::Mutex;
use relive_nn::Params;

use crate::Result;

/// Where actors find a learner's parameters.
pub trait VariableSource: Send + Sync {
    /// The newest.
    ///
    /// # Errors
    /// They cannot be had.
    fn newest(&self) -> Result<Arc<Params>>;
}

/// Where a learner puts its newest parameters, for actors in the same process. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Variables(Arc<Mutex<Arc<Params>>>);

impl Variables {
    /// Begins with `params`.
    #[must_use]
    pub fn new(params: Params) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(params))))
    }

    /// The newest.
    #[must_use]
    pub fn get(&self) -> Arc<Params> {
        Arc::clone(&self.0.lock())
    }

    /// Puts newer ones there.
    pub fn put(&self, params: Params) {
        let params = Arc::new(params);
        // What was there is let go of outside of the lock.
        let _old = std::mem::replace(&mut *self.0.lock(), params);
    }
}

impl VariableSource for Variables {
    fn newest(&self) -> Result<Arc<Params>> {
        Ok(self.get())
    }
}
