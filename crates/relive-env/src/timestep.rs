//! What an environment answers.

/// Where in its episode a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepType {
    /// The first observation of an episode: no action led to it.
    First,
    /// Neither the first nor the last.
    Mid,
    /// The last observation of an episode.
    Last,
}

/// One answer of an environment; its observation is in the buffer that the caller gave.
///
/// Step type and discount are independent: a LAST with discount 1 is an episode that was cut short (*truncation*), one
/// with discount 0 is an episode that came to its end (*termination*). Discounts are the environment's, in `[0, 1]`;
/// an agent multiplies its own γ once.
///
/// ```
/// use relive_env::{StepType, TimeStep};
/// assert_eq!(TimeStep::termination(1.0).discount, 0.0);
/// assert_eq!(TimeStep::truncation(1.0, 1.0).step_type, StepType::Last);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeStep {
    /// Where in the episode it is.
    pub step_type: StepType,
    /// What the action earned. On a FIRST there was none: 0.
    pub reward: f64,
    /// How much of the value of what follows counts. On a FIRST it has no meaning: 1.
    pub discount: f64,
}

impl TimeStep {
    /// The first step of an episode.
    #[must_use]
    pub fn restart() -> Self {
        Self { step_type: StepType::First, reward: 0.0, discount: 1.0 }
    }

    /// A step with more to come.
    #[must_use]
    pub fn transition(reward: f64) -> Self {
        Self { step_type: StepType::Mid, reward, discount: 1.0 }
    }

    /// The end of an episode, after which nothing can be earned.
    #[must_use]
    pub fn termination(reward: f64) -> Self {
        Self { step_type: StepType::Last, reward, discount: 0.0 }
    }

    /// An episode that is cut short, by a time limit for instance.
    #[must_use]
    pub fn truncation(reward: f64, discount: f64) -> Self {
        Self { step_type: StepType::Last, reward, discount }
    }

    /// Whether an episode begins here.
    #[must_use]
    pub fn first(&self) -> bool {
        self.step_type == StepType::First
    }

    /// Whether the episode goes on before and after this.
    #[must_use]
    pub fn mid(&self) -> bool {
        self.step_type == StepType::Mid
    }

    /// Whether an episode ends here.
    #[must_use]
    pub fn last(&self) -> bool {
        self.step_type == StepType::Last
    }
}
