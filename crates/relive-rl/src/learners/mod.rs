//! Several learners of one run, each in a process of its own.
//!
//! Learner 0 is the process that calls [`train`](crate::run::train), with
//! [`RunOptions::learners`](crate::run::RunOptions::learners). It opens a meeting, and says where in the table
//! `learners` of the run. Each of the others is a process that calls [`learn`]: it makes the same agent, joins the
//! meeting, and gets the state of learner 0. From then on all make the same steps:
//!
//! * **Batches of replay tables**: each learner samples batches of its own, so that a step is made of as many batches
//!   as there are learners.
//! * **Rollouts**: learner 0 sends each to all others, and each learns from its part of it. A step is made of what it
//!   is made of by one learner.
//! * **Gradients**: all go by the mean of what they have found, and so have the same weights, bit for bit.
//!
//! An agent takes part by [`Learner::share`](crate::Learner::share).

mod follow;

pub use follow::{Followed, Follower, learn};

pub use crate::contracts::Peers;
