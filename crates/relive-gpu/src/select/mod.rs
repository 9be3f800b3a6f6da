#![doc = include_str!("../../docs/select.md")]

mod draws;
mod grid;
mod keys;
mod math;
mod philox;
mod pool;
pub mod race;
mod radix;
mod ranks;
mod selection;
mod selector;
mod smallest;
mod sums;
mod weights;

pub(crate) use draws::{Draw, Places};
pub use grid::{Grid, MAX_CAPACITY};
pub(crate) use keys::KeyKind;
pub use math::{exp2, log2, power};
pub(crate) use philox::Numbers;
pub use philox::{MAX_STEP, philox};
pub use pool::Pool;
pub(crate) use pool::{Rank, RankTotals};
pub use ranks::{Part, Summary};
pub use selection::{MAX_BETA, Order, Selected, Selection};
pub use selector::{MAX_COUNT, Selector};
pub(crate) use smallest::{Candidate, first};
pub(crate) use sums::{Measure, TILE, TILES_PER_SUPER};
pub use weights::{MAX_EXPONENT, Weights, WeightsConfig};
pub(crate) use weights::{check_all, check_update};
