//! The differences between the identifiers of an experiment.

use super::Experiment;

/// Scales of noise, four identifiers each.
const NOISE_SCALES: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];
/// Scales of rewards, four identifiers each.
const REWARD_SCALES: [f64; 5] = [0.001, 0.03, 1.0, 30.0, 1000.0];
const REPEATS: u32 = 4;
/// Lengths and numbers of distractors.
const LENGTHS: [u32; 23] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100];

/// The setting by which results are grouped, and its value.
pub(super) type Named = (&'static str, f64);

impl Experiment {
    /// Returns the settings of an identifier with their names, or `None` if the identifier does not exist.
    pub(super) fn settings(self, index: u32) -> Option<Vec<Named>> {
        if index >= self.num_ids() {
            return None;
        }
        let step = f64::from(index) / 20.0;
        let length = f64::from(*LENGTHS.get(index as usize).unwrap_or(&0));
        let repeat = ("mapping_seed", f64::from(index % REPEATS));
        Some(match self {
            Self::Cartpole | Self::Catch | Self::Mnist | Self::MountainCar => Vec::new(),
            Self::Bandit | Self::DiscountingChain => vec![("mapping_seed", f64::from(index))],
            Self::BanditNoise => vec![noise(index), repeat],
            Self::BanditScale => vec![scale(index), repeat],
            Self::CartpoleNoise | Self::CatchNoise | Self::MnistNoise | Self::MountainCarNoise => {
                vec![noise(index)]
            }
            Self::CartpoleScale | Self::CatchScale | Self::MnistScale | Self::MountainCarScale => {
                vec![scale(index)]
            }
            Self::CartpoleSwingup => vec![("height_threshold", step), ("x_reward_threshold", 1.0 - step)],
            Self::DeepSea | Self::DeepSeaStochastic => {
                vec![("size", f64::from(10 + 2 * index)), ("mapping_seed", 42.0)]
            }
            Self::MemoryLen => vec![("memory_length", length)],
            Self::MemorySize => vec![("num_bits", length)],
            Self::UmbrellaDistract => vec![("n_distractor", length)],
            Self::UmbrellaLength => vec![("chain_length", length), ("n_distractor", 20.0)],
        })
    }
}

fn noise(index: u32) -> Named {
    ("noise_scale", scale_of(&NOISE_SCALES, index))
}

fn scale(index: u32) -> Named {
    ("reward_scale", scale_of(&REWARD_SCALES, index))
}

fn scale_of(scales: &[f64], index: u32) -> f64 {
    scales.get((index / REPEATS) as usize).copied().unwrap_or(1.0)
}
