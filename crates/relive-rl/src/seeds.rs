//! Derives the seeds of a run's parts from the seed of the run.

use relive_env::bsuite::BsuiteId;
use relive_random::Key;

/// The part of a run that uses an environment, which determines its random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
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

pub(crate) fn actor_key(seed: u64, who: Who) -> Key {
    let key = Key::from_seed(seed);
    match who {
        Who::Actor(number) => key.child("actor").nth(number as u64),
        Who::Evaluator => key.child("evaluator"),
        Who::Demonstrator => key.child("demonstrator"),
    }
}

/// The seed of an environment; 32 bits for bsuite.
///
/// Identifiers of bsuite that only differ in their number, such as `catch/0` and `catch/1`, stand for
/// different runs.
pub(crate) fn environment_seed(environment: &str, seed: u64, who: Who) -> u64 {
    let key = match environment.parse::<BsuiteId>().map_or(0, BsuiteId::index) {
        0 if matches!(who, Who::Actor(0)) => return seed,
        0 => Key::from_seed(seed),
        number => Key::from_seed(seed).child("number in bsuite").nth(number.into()),
    };
    let key = match who {
        Who::Actor(number) => key.child("environment").nth(number as u64),
        Who::Evaluator => key.child("environment of the evaluator"),
        Who::Demonstrator => key.child("environment of the demonstrator"),
    };
    key.stream().bits() & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_and_every_number_of_bsuite_has_a_seed_of_its_own() {
        let mut seeds = Vec::new();
        for name in ["catch/0", "catch/1", "catch/7"] {
            for who in [Who::Actor(0), Who::Actor(1), Who::Evaluator] {
                seeds.push(environment_seed(name, 5, who));
            }
        }
        assert!(seeds.iter().all(|&seed| u32::try_from(seed).is_ok()));
        assert_eq!((seeds[0], environment_seed("CartPole-v1", 5, Who::Actor(0))), (5, 5));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 9);
    }
}
