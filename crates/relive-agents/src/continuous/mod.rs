//! Parts of agents that act with one bounded float32 array and learn from transitions in a table: SAC, DDPG, TD3, D4PG,
//! MPO, DMPO, and the offline agents.
//!
//! These agents scale actions to −1..1, regardless of the environment's bounds ([`Spaces`]).

mod acting;
mod critics;
mod learner;
mod networks;
mod noise;
mod normalizer;
mod returns;
mod spaces;
mod tanh_normal;
mod trained;

pub(crate) use acting::{ContinuousPolicy, Drawing};
pub(crate) use critics::{ActionGradients, ActionValues, CriticReduction, Critics, subset};
pub(crate) use learner::{Improve, StepMetrics, TransitionLearner, checked, learnt};
pub(crate) use networks::{Body, Layers, Role};
pub(crate) use noise::draw;
pub(crate) use normalizer::Normalizer;
pub(crate) use returns::{Returns, SampledOutputs, categorical};
pub(crate) use spaces::{Spaces, join, join_many};
pub(crate) use tanh_normal::TanhNormal;
pub(crate) use trained::{TargetUpdate, Trained};
