//! Environments by name. A new name also needs a line in `reference.rs` and in `python/relive/_gymnasium_ids.py`.

use crate::bsuite::{BsuiteId, Experiment};
use crate::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use crate::control::{AcrobotSwingup, CartpoleSwingup, PendulumSwingup};
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::pixels::PixelCatch;

/// Returns the environment with the given name. The names are bsuite's identifiers, such as `catch/0`; `CartPole-v1`,
/// `Acrobot-v1`, `MountainCar-v0`, `MountainCarContinuous-v0` and `Pendulum-v1`; the swing-ups
/// `control/acrobot-swingup`, `control/cartpole-swingup` and `control/pendulum-swingup`; and `pixels/catch`.
///
/// The same name and seed give the same episodes; episodes of bsuite and Gymnasium match the originals. bsuite's seeds
/// have 32 bits.
///
/// # Errors
/// [`EnvError::Setting`] if no environment has this name, or the seed is too large.
///
/// ```
/// use relive_env::{Environment, make};
/// assert_eq!(make("catch/0", 1)?.spec().num_actions(), Some(3));
/// assert_eq!(make("Pendulum-v1", 1)?.spec().num_actions(), None);
/// assert!(make("Pong-v5", 1).unwrap_err().to_string().contains("CartPole-v1"));
/// # Ok::<(), relive_env::EnvError>(())
/// ```
pub fn make(name: &str, seed: u64) -> Result<Box<dyn Environment>, EnvError> {
    expect_known(name)?;
    if let Some((_, make)) = ENVIRONMENTS.iter().find(|(known, _)| *known == name) {
        return Ok(make(seed));
    }
    let narrow = u32::try_from(seed).map_err(|_| {
        let expected = format_args!("0..={} for {name}", u32::MAX);
        EnvError::Setting(Mismatch::boxed("seed", expected, seed))
    })?;
    Ok(Box::new(name.parse::<BsuiteId>()?.load(narrow)?))
}

/// Checks that [`make`] has an environment with this name, or an experiment of bsuite whose number remains to be
/// checked.
///
/// # Errors
/// [`EnvError::Setting`] if it has none.
pub fn expect_known(name: &str) -> Result<(), EnvError> {
    if is_of_bsuite(name) || ENVIRONMENTS.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let expected = "an id of bsuite such as catch/0, CartPole-v1, Acrobot-v1, MountainCar-v0, \
                    MountainCarContinuous-v0, Pendulum-v1, control/acrobot-swingup, \
                    control/cartpole-swingup, control/pendulum-swingup or pixels/catch; runs in \
                    Python also take the names of Gymnasium's environments, and environments themselves";
    Err(EnvError::Setting(Mismatch::boxed("environment", expected, name)))
}

type Make = fn(u64) -> Box<dyn Environment>;

/// The environments outside bsuite.
const ENVIRONMENTS: [(&str, Make); 9] = [
    ("CartPole-v1", |seed| Box::new(CartPole::new(seed))),
    ("Acrobot-v1", |seed| Box::new(Acrobot::new(seed))),
    ("MountainCar-v0", |seed| Box::new(MountainCar::new(seed))),
    ("MountainCarContinuous-v0", |seed| Box::new(MountainCarContinuous::new(seed))),
    ("Pendulum-v1", |seed| Box::new(Pendulum::new(seed))),
    ("control/acrobot-swingup", |seed| Box::new(AcrobotSwingup::new(seed))),
    ("control/cartpole-swingup", |seed| Box::new(CartpoleSwingup::new(seed))),
    ("control/pendulum-swingup", |seed| Box::new(PendulumSwingup::new(seed))),
    ("pixels/catch", |seed| Box::new(PixelCatch::new(seed))),
];

fn is_of_bsuite(name: &str) -> bool {
    let experiment = name.split_once('/').map(|(experiment, _)| experiment);
    experiment.is_some_and(|name| Experiment::named(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_environments_are_refused_with_advice() {
        let error = make("ALE/Pong-v5", 0).unwrap_err().to_string();
        assert!(error.contains("Gymnasium's environments") && !error.contains("umbrella_length"), "{error}");
        let error = make("catch/99", 0).unwrap_err().to_string();
        assert!(error.contains("catch/0 to catch/19"), "{error}");
    }

    #[test]
    fn bsuite_seeds_have_32_bits() {
        let error = make("catch/0", 1 << 32).unwrap_err().to_string();
        assert_eq!(error, "setting at `seed`: expected 0..=4294967295 for catch/0, got 4294967296");
        assert!(make("CartPole-v1", 1 << 32).is_ok());
    }
}
