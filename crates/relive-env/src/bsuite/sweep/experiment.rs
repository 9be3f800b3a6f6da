//! Experiments and their tags.

use std::fmt;

/// A capability that experiments test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names explain the variants")]
pub enum Tag {
    Basic,
    Noise,
    Scale,
    Exploration,
    CreditAssignment,
    Generalization,
    Memory,
}

/// A family of environments that differ in their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names explain the variants")]
pub enum Experiment {
    Bandit,
    BanditNoise,
    BanditScale,
    Cartpole,
    CartpoleNoise,
    CartpoleScale,
    CartpoleSwingup,
    Catch,
    CatchNoise,
    CatchScale,
    DeepSea,
    DeepSeaStochastic,
    DiscountingChain,
    MemoryLen,
    MemorySize,
    Mnist,
    MnistNoise,
    MnistScale,
    MountainCar,
    MountainCarNoise,
    MountainCarScale,
    UmbrellaDistract,
    UmbrellaLength,
}

struct Facts {
    name: &'static str,
    tags: &'static [Tag],
    num_episodes: u64,
    num_ids: u32,
}

const SHORT: u64 = 1_000;
const LONG: u64 = 10_000;

impl Experiment {
    /// All experiments except [MNIST's](Self::MNIST), in the order of bsuite's sweep.
    pub const ALL: [Self; 20] = [
        Self::Bandit,
        Self::BanditNoise,
        Self::BanditScale,
        Self::Cartpole,
        Self::CartpoleNoise,
        Self::CartpoleScale,
        Self::CartpoleSwingup,
        Self::Catch,
        Self::CatchNoise,
        Self::CatchScale,
        Self::DeepSea,
        Self::DeepSeaStochastic,
        Self::DiscountingChain,
        Self::MemoryLen,
        Self::MemorySize,
        Self::MountainCar,
        Self::MountainCarNoise,
        Self::MountainCarScale,
        Self::UmbrellaDistract,
        Self::UmbrellaLength,
    ];

    /// The experiments that need MNIST's images, which the user provides.
    pub const MNIST: [Self; 3] = [Self::Mnist, Self::MnistNoise, Self::MnistScale];

    /// Returns the experiment with the given name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain(Self::MNIST).find(|experiment| experiment.name() == name)
    }

    fn facts(self) -> Facts {
        use Tag::{Basic, CreditAssignment, Exploration, Generalization, Memory, Noise, Scale};
        let (name, tags, num_episodes, num_ids): (_, &'static [Tag], _, _) = match self {
            Self::Bandit => ("bandit", &[Basic], LONG, 20),
            Self::BanditNoise => ("bandit_noise", &[Noise], LONG, 20),
            Self::BanditScale => ("bandit_scale", &[Scale], LONG, 20),
            Self::Cartpole => ("cartpole", &[Basic, CreditAssignment, Generalization], SHORT, 20),
            Self::CartpoleNoise => ("cartpole_noise", &[Noise, Generalization], SHORT, 20),
            Self::CartpoleScale => ("cartpole_scale", &[Scale, Generalization], SHORT, 20),
            Self::CartpoleSwingup => ("cartpole_swingup", &[Exploration, Generalization], SHORT, 20),
            Self::Catch => ("catch", &[Basic, CreditAssignment], LONG, 20),
            Self::CatchNoise => ("catch_noise", &[Noise, CreditAssignment], LONG, 20),
            Self::CatchScale => ("catch_scale", &[Scale, CreditAssignment], LONG, 20),
            Self::DeepSea => ("deep_sea", &[Exploration], LONG, 21),
            Self::DeepSeaStochastic => ("deep_sea_stochastic", &[Exploration, Noise], LONG, 21),
            Self::DiscountingChain => ("discounting_chain", &[CreditAssignment], SHORT, 20),
            Self::MemoryLen => ("memory_len", &[Memory], LONG, 23),
            Self::MemorySize => ("memory_size", &[Memory], LONG, 17),
            Self::Mnist => ("mnist", &[Basic, Generalization], LONG, 20),
            Self::MnistNoise => ("mnist_noise", &[Noise, Generalization], LONG, 20),
            Self::MnistScale => ("mnist_scale", &[Scale, Generalization], LONG, 20),
            Self::MountainCar => ("mountain_car", &[Basic, Generalization], SHORT, 20),
            Self::MountainCarNoise => ("mountain_car_noise", &[Noise, Generalization], SHORT, 20),
            Self::MountainCarScale => ("mountain_car_scale", &[Scale, Generalization], SHORT, 20),
            Self::UmbrellaDistract => ("umbrella_distract", &[CreditAssignment, Noise], LONG, 23),
            Self::UmbrellaLength => ("umbrella_length", &[CreditAssignment, Noise], LONG, 23),
        };
        Facts { name, tags, num_episodes, num_ids }
    }

    /// Returns the experiment's name, as in identifiers.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the capabilities that the experiment tests.
    #[must_use]
    pub fn tags(self) -> &'static [Tag] {
        self.facts().tags
    }

    /// Returns the number of episodes that an agent plays.
    #[must_use]
    pub fn num_episodes(self) -> u64 {
        self.facts().num_episodes
    }

    /// Returns the number of the experiment's settings.
    #[must_use]
    pub fn num_ids(self) -> u32 {
        self.facts().num_ids
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tag {
    /// All tags.
    pub const ALL: [Self; 7] = [
        Self::Basic,
        Self::Noise,
        Self::Scale,
        Self::Exploration,
        Self::CreditAssignment,
        Self::Generalization,
        Self::Memory,
    ];

    /// Returns the tag's name, as in bsuite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Noise => "noise",
            Self::Scale => "scale",
            Self::Exploration => "exploration",
            Self::CreditAssignment => "credit_assignment",
            Self::Generalization => "generalization",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
