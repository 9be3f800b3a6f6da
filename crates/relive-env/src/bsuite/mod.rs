//! The environments of bsuite 0.3.6 (Osband et al., 2020), number for number.
//!
//! With the same seed and actions, observations, rewards and totals match the original bit for bit. MNIST's images are
//! not part of any package; the environment variable `RELIVE_MNIST` contains the path of their folder.

mod bandit;
mod cartpole;
mod cartpole_swingup;
mod catch;
mod deep_sea;
mod discounting_chain;
mod log;
mod memory_chain;
mod mnist;
mod mountain_car;
mod pole;
mod reward;
mod score;
mod size;
mod sweep;
mod totals;
mod umbrella_chain;

pub use bandit::{Bandit, BanditTask};
pub use cartpole::{Cartpole, CartpoleTask};
pub use cartpole_swingup::{CartpoleSwingup, CartpoleSwingupTask};
pub use catch::{Catch, CatchTask};
pub use deep_sea::{DeepSea, DeepSeaTask};
pub use discounting_chain::{DiscountingChain, DiscountingChainTask};
pub use log::{LogRow, Logged, is_logged_episode, read_csv, write_csv};
pub use memory_chain::{MemoryChain, MemoryChainTask};
pub use mnist::{Mnist, MnistTask};
pub use mountain_car::{MountainCar, MountainCarTask};
pub use reward::Reward;
pub use score::{Run, Summary, score, summarize};
pub use sweep::{BsuiteId, Experiment, Tag, load};
pub use totals::{BsuiteEnvironment, Totals};
pub use umbrella_chain::{UmbrellaChain, UmbrellaChainTask};
