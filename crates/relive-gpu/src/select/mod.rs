#![doc = include_str!("../../docs/select.md")]

mod bytes;
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
mod sums;
mod weights;

pub use grid::{Grid, MAX_CAPACITY};
pub use math::{exp2, log2, power};
pub use philox::{MAX_STEP, philox};
pub use pool::Pool;
pub use ranks::{Part, Summary};
pub use selection::{MAX_BETA, Order, Selected, Selection};
pub use selector::{MAX_COUNT, Selector};
pub use weights::{MAX_EXPONENT, Weights, WeightsConfig};
