//! What every launcher does with a job. What is only written is run as its engine would run it.

mod contract;
mod engines;
mod members;
