//! Suites of tasks, and the length of training on each.

use clap::ValueEnum;
use relive_env::bsuite::BsuiteId;

/// A suite of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Suite {
    /// Twenty tasks of bsuite, one of each family, for agents with discrete actions
    Bsuite,
    /// Pendulum, a car on a mountain and three swing-ups, for agents with continuous actions
    Continuous,
}

/// An environment, and the length of its training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) environment: String,
    pub(super) steps: u64,
    pub(super) episodes: Option<u64>,
}

/// A task of each family, and the maximum number of steps of its episodes. If the tasks of a family differ in
/// difficulty, the suite's task is not the easiest one: `memory_len/0` needs no memory, the first scales hardly change
/// anything, and the first chains are one step long.
const BSUITE: [(&str, u64); 20] = [
    ("bandit/0", 1),
    ("bandit_noise/8", 1),
    ("bandit_scale/12", 1),
    ("cartpole/0", 1_001),
    ("cartpole_noise/8", 1_001),
    ("cartpole_scale/12", 1_001),
    ("cartpole_swingup/0", 1_001),
    ("catch/0", 9),
    ("catch_noise/8", 9),
    ("catch_scale/12", 9),
    ("deep_sea/0", 10),
    ("deep_sea_stochastic/0", 10),
    ("discounting_chain/0", 100),
    ("memory_len/3", 5),
    ("memory_size/3", 3),
    ("mountain_car/0", 1_000),
    ("mountain_car_noise/8", 1_000),
    ("mountain_car_scale/12", 1_000),
    ("umbrella_distract/9", 20),
    ("umbrella_length/9", 10),
];

/// The maximum number of steps of a bsuite task: episodes of a thousand steps would take hours, with little change at
/// the end.
const MOST_STEPS: u64 = 250_000;

/// Tasks and their numbers of steps.
const CONTINUOUS: [(&str, u64); 5] = [
    ("Pendulum-v1", 20_000),
    ("MountainCarContinuous-v0", 50_000),
    ("control/pendulum-swingup", 100_000),
    ("control/cartpole-swingup", 200_000),
    ("control/acrobot-swingup", 200_000),
];

impl Suite {
    /// Returns the suite's tasks, with `scale` of their full length. A bsuite task has bsuite's own number of episodes,
    /// but its steps are limited so that two agents complete all tasks in less than an hour on two processors.
    pub(super) fn tasks(self, scale: f64) -> Vec<Task> {
        match self {
            Suite::Bsuite => BSUITE.into_iter().map(|(id, length)| of_bsuite(id, length, scale)).collect(),
            Suite::Continuous => {
                let task = |(environment, steps): (&str, u64)| Task {
                    environment: environment.to_owned(),
                    steps: scaled(steps, scale),
                    episodes: None,
                };
                CONTINUOUS.into_iter().map(task).collect()
            }
        }
    }
}

fn of_bsuite(id: &str, length: u64, scale: f64) -> Task {
    let episodes = id.parse::<BsuiteId>().map_or(1, |id| id.experiment().num_episodes());
    let steps = scaled((episodes * length).min(MOST_STEPS), scale);
    let episodes = scaled(episodes, scale);
    Task { environment: id.to_owned(), steps: steps.max(length), episodes: Some(episodes) }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "steps of a run, times a share"
)]
fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use relive_env::ReferenceScores;
    use relive_env::bsuite::Experiment;

    use super::*;

    #[test]
    fn each_family_of_bsuite_has_a_task() {
        let tasks = Suite::Bsuite.tasks(1.0);
        let families: Vec<Experiment> =
            tasks.iter().map(|task| task.environment.parse::<BsuiteId>().unwrap().experiment()).collect();
        assert_eq!(families, Experiment::ALL);
        let catch = tasks.iter().find(|task| task.environment == "catch/0").unwrap();
        assert_eq!((catch.episodes, catch.steps), (Some(10_000), 90_000));
        let longest = tasks.iter().map(|task| task.steps).max();
        assert_eq!(longest, Some(MOST_STEPS));
    }

    #[test]
    fn a_scaled_task_has_at_least_one_episode() {
        let shares = Suite::Bsuite.tasks(0.0001);
        assert!(shares.iter().all(|task| task.episodes == Some(1)));
        assert_eq!(Suite::Continuous.tasks(0.5)[0].steps, 10_000);
    }

    #[test]
    fn continuous_tasks_have_scores() {
        let has = |task: &Task| ReferenceScores::of(&task.environment).is_some();
        assert!(Suite::Continuous.tasks(1.0).iter().all(has));
    }
}
