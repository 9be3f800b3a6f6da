//! Settings that are known to be good for an environment.

use super::{DqnConfig, DqnLoss};

impl DqnConfig {
    /// Settings for an environment by its name, as in `CartPole-v1`: what is known to learn there fast, and otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> DqnConfig {
        match name {
            "CartPole-v1" => DqnConfig::cart_pole(),
            _ => DqnConfig::default(),
        }
    }

    /// With values alone the cart often learns to balance and then drifts out of bounds: the way there is some
    /// hundred steps long. Distributions, returns that are not clipped, and twice as many samples for each step learn it.
    fn cart_pole() -> DqnConfig {
        DqnConfig {
            loss: DqnLoss::Categorical,
            value_range: [0.0, 100.0],
            n_step: 3,
            max_abs_reward: 1_000.0,
            samples_per_insert: 64.0,
            hidden: vec![64, 64],
            ..DqnConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be() {
        let cart_pole = DqnConfig::for_environment("CartPole-v1");
        assert!(cart_pole.validate().is_ok());
        assert_ne!(cart_pole, DqnConfig::default());
        assert_eq!(DqnConfig::for_environment("catch/0"), DqnConfig::default());
    }
}
