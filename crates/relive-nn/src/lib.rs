//! Networks, losses and optimizers for Relive's agents.
//!
//! * [`Layout`] and [`Params`]: the parameters of networks in one flat array, with names. They are initialized from a
//!   [`Key`], and sent as bytes.
//! * [`Network`]: layers over rows of numbers. [`Network::infer`] is for acting; [`Network::gradient`] and [`tape`] are
//!   for learning.
//! * [`Lstm`]: an LSTM over whole sequences, with resets. [`heads`]: normal distributions.
//! * [`losses`]: losses, targets and returns as pure functions.
//! * [`Optimizer`]: Adam, RMSProp and gradient descent over flat parameters, with a bound on the gradient's global
//!   norm.
//!
//! One step of a learner:
//!
//! ```
//! use relive_nn::losses::{self, Selected};
//! use relive_nn::{Activation, Adam, Key, Layout, Network, Optimizer, Scratch};
//!
//! let mut layout = Layout::new();
//! let network = Network::builder(&mut layout, "q", 2).mlp(&[50, 50], Activation::Relu).linear(3).build();
//! let mut params = layout.init(Key::from_seed(1).child("weights"));
//! let target = params.clone();
//! let mut optimizer = Optimizer::adam(Adam::default(), &params).max_gradient_norm(40.0);
//! let mut scratch = Scratch::default();
//!
//! // A batch of two transitions.
//! let (states, next) = ([0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]);
//! let selected = Selected { actions: &[0, 2], weights: &[1.0, 0.5] };
//! let values = network.infer(&target, &next, &mut scratch).to_vec();
//! let selector = network.infer(&params, &next, &mut scratch);
//! let targets = losses::double_q_targets(&[1.0, 0.0], &[0.99, 0.0], &values, selector);
//! let (found, gradient) = network.gradient(&params, &states, |q, by_q| {
//!     losses::q_loss(q, selected, &targets, 1.0, by_q)
//! });
//! optimizer.step(&mut params, &gradient);
//! assert_eq!(found.rows.len(), 2);
//! assert_eq!(params.version(), 1);
//! ```

#![warn(clippy::missing_panics_doc)]

#[cfg(target_endian = "big")]
compile_error!("parameters are little-endian bytes everywhere in Relive");

mod error;
pub mod heads;
mod kernels;
pub mod limits;
pub mod losses;
mod lstm;
mod network;
mod optim;
mod params;
pub mod tape;

pub use error::{Error, ErrorKind};
pub use kernels::activation::Activation;
pub use kernels::inputs::Inputs;
pub use lstm::{Lstm, LstmState, RecurrentNetwork, RecurrentScratch, Steps};
pub use network::{LinearInit, Network, NetworkBuilder, Scratch};
pub use optim::{Adam, Optimizer, RmsProp, Sgd, global_norm};
pub use params::{Distribution, Init, Layout, Leaf, Params};
pub use relive_random::{Key, Stream};
