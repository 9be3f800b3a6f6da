//! Derives the seeds of a run's parts from the seed of the run.

use std::hash::{BuildHasher, RandomState};

use relive_env::bsuite::BsuiteId;
use relive_random::Key;

/// The part of a run that uses an environment, which determines its random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EnvironmentUser {
    /// An actor in the environment with this number.
    Actor(usize),
    /// An evaluation.
    Evaluator,
    /// A demonstrator.
    Demonstrator,
}

pub(crate) fn learner_key(seed: u64) -> Key {
    Key::from_seed(seed).child("network")
}

pub(crate) fn actor_key(seed: u64, user: EnvironmentUser) -> Key {
    let key = Key::from_seed(seed);
    match user {
        EnvironmentUser::Actor(number) => key.child("actor").nth(number as u64),
        EnvironmentUser::Evaluator => key.child("evaluator"),
        EnvironmentUser::Demonstrator => key.child("demonstrator"),
    }
}

/// Returns the generation of a worker whose state is not restored: 0 at the start of a run, and a different number after
/// each checkpoint and each restart of the worker's process. A worker does not repeat the random numbers of its earlier
/// generations.
pub(crate) fn generation(checkpoints: u64, restarts: u32) -> u64 {
    checkpoints + (u64::from(restarts) << u32::BITS)
}

/// Returns the seed of an environment; 32 bits for bsuite.
///
/// Identifiers of bsuite that differ only in their number, such as `catch/0` and `catch/1`, denote different runs.
pub(crate) fn environment_seed(environment: &str, seed: u64, user: EnvironmentUser) -> u64 {
    let key = match environment.parse::<BsuiteId>().map_or(0, BsuiteId::index) {
        0 if matches!(user, EnvironmentUser::Actor(0)) => return seed,
        0 => Key::from_seed(seed),
        number => Key::from_seed(seed).child("number in bsuite").nth(number.into()),
    };
    let key = match user {
        EnvironmentUser::Actor(number) => key.child("environment").nth(number as u64),
        EnvironmentUser::Evaluator => key.child("environment of the evaluator"),
        EnvironmentUser::Demonstrator => key.child("environment of the demonstrator"),
    };
    key.stream().bits() & u64::from(u32::MAX)
}

/// Returns the seed of an environment in a [generation](generation) of its worker, from its seed in the first one.
pub(crate) fn seed_in_generation(seed: u64, generation: u64) -> u64 {
    match generation {
        0 => seed,
        later => Key::from_seed(seed).child("generation").nth(later).stream().bits() & u64::from(u32::MAX),
    }
}

/// Returns a number that no run repeats, from the random numbers of the operating system.
pub(crate) fn unrepeatable() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_and_bsuite_number_has_its_own_seed() {
        let mut seeds = Vec::new();
        for name in ["catch/0", "catch/1", "catch/7"] {
            for user in [EnvironmentUser::Actor(0), EnvironmentUser::Actor(1), EnvironmentUser::Evaluator] {
                seeds.push(environment_seed(name, 5, user));
            }
        }
        assert!(seeds.iter().all(|&seed| u32::try_from(seed).is_ok()));
        assert_eq!((seeds[0], environment_seed("CartPole-v1", 5, EnvironmentUser::Actor(0))), (5, 5));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 9);
    }

    #[test]
    fn every_generation_has_its_own_seeds() {
        let seeds = [generation(0, 0), generation(1, 0), generation(0, 1), generation(1, 1)]
            .map(|generation| seed_in_generation(7, generation));
        assert_eq!(seeds[0], 7, "a run without interruptions uses its own seed");
        assert!((1..4).all(|number| !seeds[..number].contains(&seeds[number])), "{seeds:?}");
    }
}
