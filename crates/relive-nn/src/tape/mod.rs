//! The tape: tensors that record the operations that produced them, for losses without a hand-written gradient.
//!
//! [`Tensor`] is burn's, on its CPU backend *flex*. A learner creates [`Weights`] from its parameters, runs networks on
//! them, computes a loss with the tensors' own operations, and reads the [`Gradients`] that it needs. A network of any
//! size is one entry on the tape, with its own backward pass.
//!
//! Losses with a closed-form gradient with respect to the network's outputs, such as all losses of Q-learning, use
//! [`Network::gradient`](crate::Network::gradient) without a tape.
//!
//! Rules: the tape is only for learning (acting, evaluation and bootstrapping use
//! [`Network::infer`](crate::Network::infer), which records nothing); gradients are first-order; random numbers come
//! from [`Stream`](crate::Stream), never from the tensors.
//!
//! ```
//! use relive_nn::tape::{self, Gradients, Weights};
//! use relive_nn::{Activation, Adam, Key, Layout, Network, Optimizer};
//!
//! let mut layout = Layout::new();
//! let network = Network::builder(&mut layout, "net", 3).mlp(&[16], Activation::Tanh).linear(1).build();
//! let mut params = layout.init(Key::from_seed(1));
//! let mut optimizer = Optimizer::adam(Adam { learning_rate: 1e-2, ..Adam::default() }, &params);
//! let (x, y) = (vec![0.1, 0.2, 0.3], vec![0.7]);
//! for _ in 0..200 {
//!     let weights = Weights::tracked(&params);
//!     let output = weights.run(&network, tape::constant(x.clone(), [1, 3]));
//!     let loss = (output - tape::constant(y.clone(), [1, 1])).powi_scalar(2).sum();
//!     let gradient = Gradients::of(&loss).by_weights(&weights);
//!     drop(weights);
//!     optimizer.step(&mut params, &gradient);
//! }
//! let output = network.infer(&params, &x, &mut Default::default())[0];
//! assert!((output - 0.7).abs() < 0.01);
//! ```

mod gradients;
mod network;
pub(crate) mod node;
mod tensors;
mod weights;

pub use burn_tensor::{Bool, Int, Tensor, activation};
pub use gradients::Gradients;
pub use tensors::{constant, indices, values, variable};
pub use weights::Weights;
