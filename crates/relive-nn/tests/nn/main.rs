//! Networks, losses and optimizers against golden numbers and independent formulas.

#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod common;
mod golden;
mod heads;
mod losses;
mod networks;
mod optimizers;
mod recurrent;
