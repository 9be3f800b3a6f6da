//! The score of each experiment.

use super::rules::{fraction, mean, mean_and_spread, per_episode_at_end, regret_score, solved};
use super::run::{Point, Run, groups, points};
use crate::bsuite::Experiment;
use crate::error::{EnvError, Mismatch};

/// The regret per episode of random play, or of the worst possible play.
const BANDIT_REGRET: f64 = 0.5;
const MNIST_REGRET: f64 = 1.8;
/// The number of episodes after which correctly recognized digits are counted.
const MNIST_LATE: u64 = 9_000;
const CATCH_REGRET: f64 = 1.6;
const CARTPOLE_REGRET: f64 = 1000.0;
const SWINGUP_REGRET: f64 = 700.0;
const MOUNTAIN_CAR_REGRET: f64 = 1000.0;
/// The number of steps that a good agent needs in the mountain car.
const MOUNTAIN_CAR_STEPS: f64 = 100.0;
const CARTPOLE_GOOD: f64 = 500.0;
const SWINGUP_GOOD: f64 = 100.0;
const BEST_RETURN: f64 = 1.1;
/// The number of episodes beyond two to the power of the size that still count as exploration.
const FORGIVEN_EPISODES: f64 = 100.0;
/// The number of episodes before which luck cannot be distinguished from skill.
const STOCHASTIC_EPISODES: u64 = 100;
const MEMORY_RATIO: f64 = 0.75;
const UMBRELLA_REGRET: f64 = 0.5;

/// Returns bsuite's score of an agent in one experiment, in `[0, 1]`, computed from the runs of that experiment.
///
/// # Errors
/// [`EnvError::Setting`] if a run belongs to another experiment, the logs have no rows, or a column is missing.
pub fn score(experiment: Experiment, runs: &[Run]) -> Result<f64, EnvError> {
    if let Some(other) = runs.iter().find(|run| run.id.experiment() != experiment) {
        return Err(EnvError::Setting(Mismatch::boxed("runs", experiment, other.id)));
    }
    let points = points(runs, experiment.num_episodes());
    if points.is_empty() {
        return Err(EnvError::Setting(Mismatch::boxed("runs", "a logged episode", "none")));
    }
    of_points(experiment, &points)
}

fn of_points(experiment: Experiment, points: &[Point<'_>]) -> Result<f64, EnvError> {
    use Experiment as E;
    match experiment {
        E::Bandit => regret_score(points, BANDIT_REGRET, |point| point.total("total_regret")),
        E::Catch => regret_score(points, CATCH_REGRET, |point| point.total("total_regret")),
        E::Cartpole => cartpole(points),
        E::Mnist => mnist(points),
        E::MountainCar => mountain_car(points),
        E::BanditNoise => by_scale(E::Bandit, points, "noise_scale"),
        E::BanditScale => by_scale(E::Bandit, points, "reward_scale"),
        E::CartpoleNoise => by_scale(E::Cartpole, points, "noise_scale"),
        E::CartpoleScale => by_scale(E::Cartpole, points, "reward_scale"),
        E::CatchNoise => by_scale(E::Catch, points, "noise_scale"),
        E::CatchScale => by_scale(E::Catch, points, "reward_scale"),
        E::MnistNoise => by_scale(E::Mnist, points, "noise_scale"),
        E::MnistScale => by_scale(E::Mnist, points, "reward_scale"),
        E::MountainCarNoise => by_scale(E::MountainCar, points, "noise_scale"),
        E::MountainCarScale => by_scale(E::MountainCar, points, "reward_scale"),
        E::CartpoleSwingup => swingup(points),
        E::DeepSea => deep_sea(points, 0.9),
        E::DeepSeaStochastic => {
            let late = points.iter().filter(|point| point.row.episode >= STOCHASTIC_EPISODES);
            deep_sea(&late.copied().collect::<Vec<_>>(), 0.8)
        }
        E::DiscountingChain => {
            let earned = per_episode_at_end(points, |point| Ok(point.row.total_return))?;
            Ok((1.0 - 10.0 * (BEST_RETURN - earned)).clamp(0.0, 1.0))
        }
        E::MemoryLen => memory(points, "memory_length"),
        E::MemorySize => memory(points, "num_bits"),
        E::UmbrellaDistract => umbrella(points, "n_distractor"),
        E::UmbrellaLength => umbrella(points, "chain_length"),
    }
}

fn by_setting<'a>(points: &[Point<'a>], setting: &str) -> Vec<Vec<Point<'a>>> {
    groups(points, |id| id.setting(setting).unwrap_or(0.0))
}

fn by_scale(plain: Experiment, points: &[Point<'_>], scale: &str) -> Result<f64, EnvError> {
    let scores: Result<Vec<f64>, _> =
        by_setting(points, scale).iter().map(|group| of_points(plain, group)).collect();
    Ok(mean_and_spread(&scores?))
}

fn cartpole(points: &[Point<'_>]) -> Result<f64, EnvError> {
    let regret = |point: &Point<'_>| Ok(CARTPOLE_REGRET * point.episodes() - point.total("raw_return")?);
    Ok(0.5 * (regret_score(points, CARTPOLE_REGRET, regret)? + solved(points, CARTPOLE_GOOD)?))
}

/// Half of the score is the regret score; the other half is the share of digits recognized at the end.
fn mnist(points: &[Point<'_>]) -> Result<f64, EnvError> {
    let mut known = Vec::new();
    for pair in points.windows(2) {
        if let [before, now] = pair
            && before.id == now.id
            && now.row.episode > MNIST_LATE
        {
            let regret = now.total("total_regret")? - before.total("total_regret")?;
            known.push(1.0 - 0.5 * regret / (now.episodes() - before.episodes()));
        }
    }
    let by_regret = regret_score(points, MNIST_REGRET, |point| point.total("total_regret"))?;
    Ok(0.5 * (by_regret + mean(&known)))
}

fn mountain_car(points: &[Point<'_>]) -> Result<f64, EnvError> {
    let regret = |point: &Point<'_>| Ok(-MOUNTAIN_CAR_STEPS * point.episodes() - point.total("raw_return")?);
    regret_score(points, MOUNTAIN_CAR_REGRET, regret)
}

fn swingup(points: &[Point<'_>]) -> Result<f64, EnvError> {
    let regret = |point: &Point<'_>| Ok(SWINGUP_REGRET * point.episodes() - point.row.total_return);
    let score = |group: &Vec<Point<'_>>| {
        Ok(0.5 * (regret_score(group, SWINGUP_REGRET, regret)? + solved(group, SWINGUP_GOOD)?))
    };
    let scores: Result<Vec<f64>, EnvError> =
        by_setting(points, "height_threshold").iter().map(score).collect();
    Ok(mean(&scores?))
}

/// Returns the share of the sizes that the agent solves with fewer bad episodes than random exploration would need.
fn deep_sea(points: &[Point<'_>], threshold: f64) -> Result<f64, EnvError> {
    let mut explored = Vec::new();
    for group in by_setting(points, "size") {
        let mut first: Option<f64> = None;
        for point in &group {
            if point.total("total_bad_episodes")? / point.episodes() < threshold {
                first = Some(first.map_or(point.episodes(), |first| first.min(point.episodes())));
            }
        }
        let size = group.first().and_then(|point| point.id.setting("size")).unwrap_or(0.0);
        explored.push(first.is_some_and(|episode| episode < size.exp2() + FORGIVEN_EPISODES));
    }
    Ok(fraction(explored))
}

fn memory(points: &[Point<'_>], setting: &str) -> Result<f64, EnvError> {
    let ratio = |point: &Point<'_>| Ok((point.episodes() - point.total("total_perfect")?) / 0.5);
    below(points, setting, MEMORY_RATIO, ratio)
}

fn umbrella(points: &[Point<'_>], setting: &str) -> Result<f64, EnvError> {
    below(points, setting, UMBRELLA_REGRET, |point| point.total("total_regret"))
}

/// Returns the share of the settings whose value per episode is below a threshold.
fn below(
    points: &[Point<'_>],
    setting: &str,
    threshold: f64,
    value: impl Fn(&Point<'_>) -> Result<f64, EnvError>,
) -> Result<f64, EnvError> {
    let values: Result<Vec<f64>, _> =
        by_setting(points, setting).iter().map(|group| per_episode_at_end(group, &value)).collect();
    Ok(fraction(values?.into_iter().map(|value| value < threshold)))
}
