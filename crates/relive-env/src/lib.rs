#![forbid(unsafe_code)]
#![doc = include_str!("../docs/crate.md")]

pub mod bsuite;
pub mod classic;
pub mod conformance;
pub mod control;
pub mod limits;
pub mod pixels;
pub mod random;
pub mod wrappers;

mod buffer;
mod environment;
mod error;
mod make;
mod noise;
mod number;
mod policy;
mod reference;
mod spec;
mod state;
mod task;
mod timestep;
mod vector;

pub use buffer::{Action, Buffer, View, ViewMut};
pub use environment::Environment;
pub use error::{EnvError, Mismatch};
pub use make::{expect_known, make};
pub use noise::ActionNoise;
pub use policy::RandomPolicy;
pub use reference::ReferenceScores;
pub use spec::{ArraySpec, Domain, EnvironmentSpec};
pub use state::{Field, State};
pub use task::{FromAction, Native, Task};
pub use timestep::{StepType, TimeStep};
pub use vector::{BatchEnvironment, Vectorized};
