//! `relive rl record`: records episodes on disk.

use std::path::PathBuf;

use clap::Args;
use relive_env::{ActionNoise, ArraySpec, Environment, EnvironmentSpec, RandomPolicy};
use relive_rl::recorded::{self, RecordedEpisode};
use relive_rl::run::Stop;
use relive_rl::{RlError, SavedPolicy};
use relive_tensor::Nest;

use super::places;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::signals;

/// Options of `relive rl record`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,
    /// The policy that acts: `random`, `demonstrator` for the environment's own, or the file of a trained policy;
    /// repeatable: several policies take turns, one episode each
    #[arg(long, value_name = "WHO", default_value = "random")]
    policy: Vec<String>,
    /// Number of episodes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    episodes: u64,
    /// Noise on the actions of trained policies and of the demonstrator, so that the recording also shows the value of
    /// other actions: its standard deviation as a share of an action's range or, for discrete actions, the probability
    /// of a random one
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    noise: f64,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for the recording; it must be new or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The acting policy.
enum Actor {
    Random(Box<RandomPolicy>),
    Demonstrator,
    Trained(Box<SavedPolicy>),
}

impl Actor {
    fn of(policy: &str, spec: &EnvironmentSpec, seed: u64) -> Result<Actor> {
        Ok(match policy {
            "random" => Actor::Random(Box::new(RandomPolicy::new(&spec.actions, seed))),
            "demonstrator" => Actor::Demonstrator,
            file => {
                let loaded = SavedPolicy::load(file, &relive_agents::from_json);
                let policy = loaded.map_err(|error| Failure::from(error).of("--policy"))?;
                expect_same(policy.spec(), spec)
                    .map_err(|text| Failure::usage(format!("--policy {file}: {text}")))?;
                Actor::Trained(Box::new(policy))
            }
        })
    }
}

/// Checks that a policy that was trained in one environment can act in another. The specs are compared without names,
/// because policy files store leaves without them.
fn expect_same(trained: &EnvironmentSpec, here: &EnvironmentSpec) -> std::result::Result<(), String> {
    let leaves = |nest: &Nest<ArraySpec>| {
        let leaves = nest.leaves().map(|leaf| {
            let below = leaf.num_values().map_or_else(String::new, |values| format!(" below {values}"));
            format!("{}{:?}{below}", leaf.dtype, leaf.shape.dims())
        });
        leaves.collect::<Vec<_>>().join(", ")
    };
    let both = |spec: &EnvironmentSpec| [leaves(&spec.observations), leaves(&spec.actions)];
    let ([seen, done], [observations, actions]) = (both(trained), both(here));
    if seen == observations && done == actions {
        return Ok(());
    }
    Err(format!(
        "the policy takes observations {seen} and returns actions {done}, but the environment returns {observations} and takes {actions}"
    ))
}

pub(crate) fn run(options: &Options) -> Result {
    if options.out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let text = format!("--out {}: the folder is not empty; give a new one", options.out.display());
        return Err(Failure::usage(text));
    }
    let mut environment = relive_env::make(&options.env, options.seed).map_err(RlError::from)?;
    // Each part has its own random numbers. The generator mixes its seed, so different seeds suffice.
    let seed_of = |part: u64| options.seed.wrapping_add((part + 1) << 32);
    let actors = (1..).zip(&options.policy);
    let actors = actors.map(|(part, policy)| Actor::of(policy, environment.spec(), seed_of(part)));
    let mut actors = actors.collect::<Result<Vec<_>>>()?;
    let mut noise = ActionNoise::new(&environment.spec().actions, options.noise, seed_of(0))
        .map_err(|error| Failure::from(RlError::from(error)).of("--noise"))?;
    places::expect_folder("--out", &options.out)?;
    let episodes = played_all(options, &mut environment, &mut actors, &mut noise)?;
    if episodes.is_empty() {
        return Err(Failure::text(
            Kind::Runtime,
            "stopped before the first episode was complete: nothing was recorded",
        ));
    }
    recorded::save(&options.out, environment.spec(), &episodes)
        .map_err(|error| Failure::from(error).of("--out"))?;
    let steps: usize = episodes.iter().map(|episode| episode.answers.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let mean = episodes.iter().map(RecordedEpisode::episode_return).sum::<f64>() / episodes.len() as f64;
    let (count, place) = (episodes.len(), options.out.display());
    output::line(&format!("{count} episodes, {steps} steps, mean return {mean:.3}: {place}"))?;
    Ok(())
}

/// Plays the requested number of episodes, or until a signal arrives.
fn played_all(
    options: &Options,
    environment: &mut dyn Environment,
    actors: &mut [Actor],
    noise: &mut ActionNoise,
) -> Result<Vec<RecordedEpisode>> {
    let stop = Stop::new();
    let on_signal = stop.clone();
    signals::stop_in_order("recording", move || on_signal.stop())
        .map_err(|error| Failure::text(Kind::Runtime, error))?;
    let mut episodes = Vec::new();
    for (number, turn) in (0..options.episodes).zip((0..actors.len()).cycle()) {
        match played(environment, &mut actors[turn], noise, &stop) {
            Err(RlError::Stopped) => break,
            Err(RlError::NoDemonstrator) => {
                let text = "has no demonstrator; use random, or the file of a trained policy";
                return Err(Failure::usage(format!("--policy demonstrator: {} {text}", options.env)));
            }
            Err(error) => return Err(Failure::from(error).of(&format!("episode {}", number + 1))),
            Ok(episode) => episodes.push(episode),
        }
    }
    Ok(episodes)
}

fn played(
    environment: &mut dyn Environment,
    actor: &mut Actor,
    noise: &mut ActionNoise,
    stop: &Stop,
) -> relive_rl::Result<RecordedEpisode> {
    if let Actor::Trained(policy) = actor {
        policy.begin_episode();
    }
    RecordedEpisode::play(environment, |environment, observation, mut action| {
        if stop.is_stopped() {
            return Err(RlError::Stopped);
        }
        match actor {
            Actor::Random(policy) => return Ok(policy.act(action)?),
            Actor::Demonstrator => RecordedEpisode::demonstrate(environment, action.reborrow())?,
            Actor::Trained(policy) => policy.act(observation, action.reborrow())?,
        }
        Ok(noise.apply(action)?)
    })
}
