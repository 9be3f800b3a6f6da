//! The promises about agents.

/// A promise: an agent, a task, and the figure that the agent must reach.
pub(crate) struct Row {
    pub(crate) agent: &'static str,
    pub(crate) environment: &'static str,
    pub(crate) env_steps: u64,
    pub(crate) actors: usize,
    pub(crate) measure: Measure,
    pub(crate) bound: Bound,
}

/// The figure that is checked at the end.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// The mean return of the last 100 episodes.
    Training,
    /// The mean return of ten episodes without exploration.
    Shown,
}

/// The bound on the figure.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    /// For agents that cannot learn the task, as a contrast to an agent that can.
    Below(f64),
}

impl Row {
    const fn new(agent: &'static str, environment: &'static str, env_steps: u64, bound: Bound) -> Row {
        Row { agent, environment, env_steps, actors: 0, measure: Measure::Training, bound }
    }

    const fn shown(self) -> Row {
        Row { measure: Measure::Shown, ..self }
    }

    const fn actors(self, actors: usize) -> Row {
        Row { actors, ..self }
    }

    pub(crate) fn name(&self) -> String {
        let Row { agent, environment, env_steps, actors, .. } = self;
        let actors = if *actors > 0 { format!(", {actors} actors") } else { String::new() };
        format!("{agent}, {environment}, {env_steps} steps{actors}")
    }

    pub(crate) fn goal(&self) -> String {
        let measure = match self.measure {
            Measure::Training => "mean of the last 100",
            Measure::Shown => "mean of 10 without exploring",
        };
        match self.bound {
            AtLeast(least) => format!("{measure} ≥ {least}"),
            Below(most) => format!("{measure} < {most}"),
        }
    }

    pub(crate) fn holds(&self, result: f64) -> bool {
        match self.bound {
            AtLeast(least) => result >= least,
            Below(most) => result < most,
        }
    }
}

use Bound::{AtLeast, Below};

/// All promises.
pub(crate) const ROWS: &[Row] = &[
    Row::new("dqn", "catch/0", 9_000, AtLeast(0.8)),
    Row::new("r2d2", "memory_len/3", 3_500, AtLeast(0.9)),
    Row::new("dqn", "memory_len/3", 3_500, Below(0.3)),
    Row::new("r2d2", "memory_len/9", 110_000, AtLeast(0.9)),
    Row::new("impala", "memory_len/9", 110_000, AtLeast(0.9)),
    Row::new("impala", "catch/0", 90_000, AtLeast(0.8)),
    Row::new("dqfd", "deep_sea/0", 10_000, AtLeast(0.7)),
    Row::new("r2d3", "deep_sea/0", 10_000, AtLeast(0.7)),
    Row::new("dqn", "deep_sea/0", 10_000, Below(0.05)),
    Row::new("mcts", "catch/0", 2_700, AtLeast(0.9)),
    Row::new("mcts", "deep_sea/0", 3_000, AtLeast(0.7)),
    Row::new("dqn", "pixels/catch", 16_000, AtLeast(0.9)),
    Row::new("appo", "CartPole-v1", 200_000, AtLeast(475.0)),
    Row::new("apex", "CartPole-v1", 100_000, AtLeast(475.0)).actors(4).shown(),
    Row::new("ppo", "CartPole-v1", 100_000, AtLeast(475.0)),
    Row::new("ddpg", "Pendulum-v1", 12_000, AtLeast(-200.0)).shown(),
    Row::new("td3", "Pendulum-v1", 12_000, AtLeast(-200.0)).shown(),
    Row::new("mpo", "Pendulum-v1", 12_000, AtLeast(-200.0)).shown(),
    Row::new("dmpo", "Pendulum-v1", 12_000, AtLeast(-200.0)).shown(),
    Row::new("d4pg", "Pendulum-v1", 15_000, AtLeast(-200.0)).shown(),
    Row::new("sac", "Pendulum-v1", 6_000, AtLeast(-200.0)).shown(),
    Row::new("d4pg", "control/cartpole-swingup", 200_000, AtLeast(800.0)).shown(),
    Row::new("dmpo", "control/cartpole-swingup", 200_000, AtLeast(800.0)).shown(),
    Row::new("sac", "control/cartpole-swingup", 200_000, AtLeast(800.0)).shown(),
    Row::new("mpo", "MountainCarContinuous-v0", 100_000, AtLeast(90.0)).shown(),
    Row::new("dmpo", "MountainCarContinuous-v0", 100_000, AtLeast(90.0)).shown(),
    Row::new("sac", "MountainCarContinuous-v0", 100_000, AtLeast(90.0)).shown(),
];
