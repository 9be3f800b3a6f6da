//! Several learners of one run, each in its own process.
//!
//! Learner 0 is the process that calls [`train`](crate::run::train) with
//! [`RunOptions::learners`](crate::run::RunOptions::learners). It opens a meeting and writes its address into the table
//! `learners` of the run. Each other learner is a process that calls [`learn`]: it creates the same agent, joins the
//! meeting, and receives the state of learner 0. From then on, all learners take the same steps:
//!
//! * **Batches from replay tables**: each learner samples its own batches. A step therefore uses as many batches as
//!   there are learners.
//! * **Rollouts**: learner 0 sends each rollout to all others, and each learner learns from its share. A step uses the
//!   same data as with a single learner.
//! * **Gradients**: all learners apply the mean of their gradients, and therefore have the same weights, bit for bit.
//!
//! An agent participates through [`Learner::share`](crate::Learner::share).

mod follow;

pub use follow::{Followed, Follower, learn};

pub use crate::contracts::Peers;
