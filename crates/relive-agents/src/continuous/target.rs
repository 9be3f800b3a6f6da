//! How target networks follow.

use relive_nn::Params;

/// When and how far target networks follow those that learn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TargetUpdate {
    /// They are copied after every so many steps (Mnih et al. 2015).
    Copy { period: u64 },
    /// They move by this share with each step (Lillicrap et al. 2016).
    Move { tau: f32 },
}

impl TargetUpdate {
    /// After the step of a number, counted from 1.
    pub(crate) fn follow(self, target: &mut Params, params: &Params, step: u64) {
        match self {
            Self::Copy { period } if step.is_multiple_of(period) => target.copy_from(params),
            Self::Copy { .. } => {}
            Self::Move { tau } => target.polyak_from(params, tau),
        }
    }
}
