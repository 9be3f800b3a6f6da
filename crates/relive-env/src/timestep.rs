//! The answers of an environment.

/// The position of a step in its episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepType {
    /// The first observation of an episode: no action precedes it.
    First,
    /// An observation that is neither the first nor the last.
    Mid,
    /// The last observation of an episode.
    Last,
}

impl StepType {
    /// Returns the step type with this number, which is 0 for FIRST, 1 for MID and 2 for LAST, as in dm_env. `None`: there
    /// is none.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        [StepType::First, StepType::Mid, StepType::Last].get(usize::from(number)).copied()
    }
}

/// An answer of an environment. The observation is in the caller's buffer.
///
/// Step type and discount are independent: a LAST with discount 1 is a truncated episode (*truncation*), and a LAST
/// with discount 0 is a terminated episode (*termination*). Discounts are the environment's own, in `[0, 1]`; an agent
/// multiplies each of them once by its own γ.
///
/// ```
/// use relive_env::{StepType, TimeStep};
/// assert_eq!(TimeStep::termination(1.0).discount, 0.0);
/// assert_eq!(TimeStep::truncation(1.0, 1.0).step_type, StepType::Last);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeStep {
    /// The position in the episode.
    pub step_type: StepType,
    /// The reward of the action; 0 on a FIRST, which no action precedes.
    pub reward: f64,
    /// The weight of all later rewards. On a FIRST, it is 1 and has no meaning.
    pub discount: f64,
}

impl TimeStep {
    /// Returns the first step of an episode.
    #[must_use]
    pub fn restart() -> Self {
        Self { step_type: StepType::First, reward: 0.0, discount: 1.0 }
    }

    /// Returns a step in the middle of an episode.
    #[must_use]
    pub fn transition(reward: f64) -> Self {
        Self { step_type: StepType::Mid, reward, discount: 1.0 }
    }

    /// Returns the last step of an episode that terminates: after it, nothing more can be earned.
    #[must_use]
    pub fn termination(reward: f64) -> Self {
        Self { step_type: StepType::Last, reward, discount: 0.0 }
    }

    /// Returns the last step of an episode that is truncated, for example by a time limit.
    #[must_use]
    pub fn truncation(reward: f64, discount: f64) -> Self {
        Self { step_type: StepType::Last, reward, discount }
    }

    /// Returns whether an episode starts here.
    #[must_use]
    pub fn first(&self) -> bool {
        self.step_type == StepType::First
    }

    /// Returns whether this is neither the first nor the last step of its episode.
    #[must_use]
    pub fn mid(&self) -> bool {
        self.step_type == StepType::Mid
    }

    /// Returns whether an episode ends here.
    #[must_use]
    pub fn last(&self) -> bool {
        self.step_type == StepType::Last
    }
}
