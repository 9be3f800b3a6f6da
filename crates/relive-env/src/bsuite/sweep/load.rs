//! Creates environments from their identifiers.

use super::{BsuiteId, Experiment};
use crate::bsuite::{
    Bandit, BsuiteEnvironment, Cartpole, CartpoleSwingup, Catch, DeepSea, DiscountingChain, MemoryChain,
    Mnist, MountainCar, Reward, UmbrellaChain,
};
use crate::error::EnvError;

type Boxed = Box<dyn BsuiteEnvironment>;

/// The length of the chain if the number of bits varies.
const MEMORY_LENGTH: u32 = 2;
/// The length of the chain if the number of distractors varies.
const CHAIN_LENGTH: u32 = 20;

/// Returns the environment of an identifier such as `catch/0`.
///
/// `seed` replaces all seeds that bsuite fixes or leaves to chance, except the seeds of mappings, which are part of the
/// identifier.
///
/// # Errors
/// [`EnvError::Setting`] if the identifier does not exist.
///
/// ```
/// use relive_env::{Environment, bsuite};
/// let environment = bsuite::load("umbrella_length/3", 7)?;
/// assert_eq!(environment.spec().num_actions(), Some(2));
/// # Ok::<(), relive_env::EnvError>(())
/// ```
pub fn load(id: &str, seed: u32) -> Result<Boxed, EnvError> {
    id.parse::<BsuiteId>()?.load(seed)
}

impl BsuiteId {
    /// Returns the environment of this identifier; see [`load`].
    ///
    /// # Errors
    /// [`EnvError::Setting`] if a setting exceeds its limits, which no setting of the sweep does, or if MNIST's images
    /// are needed but missing.
    pub fn load(self, seed: u32) -> Result<Boxed, EnvError> {
        use Experiment as E;
        Ok(match self.experiment() {
            E::Bandit => Box::new(Bandit::new(self.mapping())),
            E::BanditNoise => self.noisy(Bandit::new(self.mapping()), seed),
            E::BanditScale => self.scaled(Bandit::new(self.mapping())),
            E::Cartpole => Box::new(Cartpole::new(seed)),
            E::CartpoleNoise => self.noisy(Cartpole::new(seed), seed),
            E::CartpoleScale => self.scaled(Cartpole::new(seed)),
            E::CartpoleSwingup => Box::new(self.swingup(seed)),
            E::Catch => Box::new(Catch::new(seed)),
            E::CatchNoise => self.noisy(Catch::new(seed), seed),
            E::CatchScale => self.scaled(Catch::new(seed)),
            E::DeepSea => Box::new(DeepSea::new(self.whole("size"), self.mapping(), seed)?),
            E::DeepSeaStochastic => Box::new(DeepSea::stochastic(self.whole("size"), self.mapping(), seed)?),
            E::DiscountingChain => Box::new(DiscountingChain::new(self.mapping())),
            E::MemoryLen => Box::new(MemoryChain::new(self.whole("memory_length"), 1, seed)?),
            E::MemorySize => Box::new(MemoryChain::new(MEMORY_LENGTH, self.whole("num_bits"), seed)?),
            E::Mnist => Box::new(Mnist::of_variable(seed)?),
            E::MnistNoise => self.noisy(Mnist::of_variable(seed)?, seed),
            E::MnistScale => self.scaled(Mnist::of_variable(seed)?),
            E::MountainCar => Box::new(MountainCar::new(seed)),
            E::MountainCarNoise => self.noisy(MountainCar::new(seed), seed),
            E::MountainCarScale => self.scaled(MountainCar::new(seed)),
            E::UmbrellaDistract => {
                Box::new(UmbrellaChain::new(CHAIN_LENGTH, self.whole("n_distractor"), seed)?)
            }
            E::UmbrellaLength => {
                Box::new(UmbrellaChain::new(self.whole("chain_length"), self.whole("n_distractor"), seed)?)
            }
        })
    }

    fn noisy(self, environment: impl BsuiteEnvironment + 'static, seed: u32) -> Boxed {
        Box::new(Reward::with_noise(environment, self.setting("noise_scale").unwrap_or(0.0), seed))
    }

    fn scaled(self, environment: impl BsuiteEnvironment + 'static) -> Boxed {
        Box::new(Reward::scaled(environment, self.setting("reward_scale").unwrap_or(1.0)))
    }

    fn swingup(self, seed: u32) -> CartpoleSwingup {
        let setting = |name| self.setting(name).unwrap_or(0.0);
        CartpoleSwingup::new(setting("height_threshold"), setting("x_reward_threshold"), seed)
    }

    fn mapping(self) -> u32 {
        self.whole("mapping_seed")
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
    fn whole(self, name: &str) -> u32 {
        self.setting(name).unwrap_or(0.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_an_environment() {
        for id in BsuiteId::all() {
            let environment = id.load(3).unwrap();
            assert_eq!(environment.spec().validate(), Ok(()), "{id}");
        }
    }
}
