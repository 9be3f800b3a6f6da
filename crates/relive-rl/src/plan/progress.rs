//! What a plan tells of itself.

use crate::{Acted, Learnt};

/// What a plan tells with each of its items.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// What workers have done.
    pub acted: Vec<Acted>,
    /// What the learner has learned.
    pub learnt: Option<Learnt>,
}
